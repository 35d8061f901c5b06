"""Which credentials a fleet file names, and what uses each."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from runbooks.core.base import Frozen
from runbooks.core.fleet import Fleet, KeySource

USED_BY = {
    "nodes": "every runbook on that node, nightly, sweep, doctor",
    "leader": "zombie-gpu, nightly, sweep, doctor",
    "orchestrator": "stuck-spawning, nightly, doctor",
}


class NeededSecret(Frozen):
    """A credential that the fleet file names."""

    name: str  # environment variable, or block if `block`
    field: str
    used_by: str
    block: bool = False  # only a Secret block, no variable
    variable: bool = False  # only a variable, no Secret block

    @property
    def in_block(self) -> str:
        """The Secret block that holds it."""
        from tasks.credentials import block_name

        return self.name if self.block else block_name(self.name)


def needs(fleet: Fleet) -> tuple[NeededSecret, ...]:
    """Every credential of the fleet file, by name, once. Files and agents are left out: they are on the worker."""
    found = {n.name: n for section in USED_BY for n in _in(getattr(fleet, section), section, USED_BY[section])}
    return tuple(found[name] for name in sorted(found))


def _in(value: Any, path: str, used_by: str) -> Iterator[NeededSecret]:
    if isinstance(value, KeySource):
        if value.env:
            yield NeededSecret(name=value.env, field=f"{path}.env", used_by=used_by, variable=True)
        if value.secret:
            yield NeededSecret(name=value.secret, field=f"{path}.secret", used_by=used_by, block=True)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _in(getattr(value, name), f"{path}.{name}", used_by)
    elif isinstance(value, tuple):
        for part in value:
            yield from _in(part, path, used_by)
    elif isinstance(value, str) and path.endswith("_env"):
        yield NeededSecret(name=value, field=path, used_by=used_by)
