"""Slug to spec, without Prefect: what the command line and the engine look runbooks up in. One function per runbook."""

from collections.abc import Callable

from flows.spec import RunbookSpec


class NoSuchRunbook(KeyError):
    """No runbook of that name. The message lists the names."""

    def __str__(self) -> str:
        return str(self.args[0])


def load_spec(slug: str) -> RunbookSpec:
    """The runbook's spec; only that runbook's modules are imported. Raises NoSuchRunbook."""
    if slug not in SPECS:
        raise NoSuchRunbook(f"no runbook {slug!r}; there are: {', '.join(sorted(SPECS))}")
    return SPECS[slug]()


def _zombie_gpu() -> RunbookSpec:
    from runbooks.zombie_gpu.diagnose import Limits, diagnose
    from runbooks.zombie_gpu.evidence import Evidence
    from tasks.diagnostics.zombie_gpu import gather_zombie_gpu

    return RunbookSpec(
        slug="zombie-gpu",
        evidence=Evidence,
        limits=Limits,
        gather=gather_zombie_gpu,
        diagnose=diagnose,
        bridge="idle_s",
    )


SPECS: dict[str, Callable[[], RunbookSpec]] = {
    "zombie-gpu": _zombie_gpu,
}

SLUGS: tuple[str, ...] = tuple(SPECS)
"""Every runbook that can be run, in the order in which the nightly runs them."""
