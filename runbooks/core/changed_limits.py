"""Which limits of a runbook a fleet file changes, and from what. Pure."""

from collections.abc import Iterator

from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.report import ChangedLimit


def changed_limits(fleet: Fleet, slug: str) -> tuple[ChangedLimit, ...]:
    """Those of one runbook, in the order of the file. What is set to its default is not changed."""
    known = load_runbook(slug).limits
    given = ((name, now, known[name]) for name, now in fleet.limits.get(slug, {}).items() if name in known)
    return tuple(
        ChangedLimit(runbook=slug, name=name, default=limit.value, now=now, unit=limit.unit, file=fleet.file)
        for name, now, limit in given
        if now != limit.value
    )


def all_changed(fleet: Fleet) -> Iterator[ChangedLimit]:
    """Those of every runbook."""
    for slug in (s for s in fleet.limits if s in runbook_slugs()):
        yield from changed_limits(fleet, slug)
