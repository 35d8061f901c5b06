"""A container with all that runs in it: while somebody is at work in it, it is not ended for another fault. Pure."""

from collections.abc import Iterator

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.core.args.containers import Moving
from runbooks.core.members import container
from runbooks.core.reading import Unknown, value_of
from runbooks.core.verdict import Group


def company(e: Evidence, c: ContainerFacts | None) -> tuple[Group, ...]:
    """The container, and the units whose stop stops it."""
    if c is None:
        return ()
    units = tuple(f"unit {s.name}" for s in value_of(e.supervisors) or () if s.kind == "systemd")
    words = tuple(_at_work(e)) if c.status == "running" else ()
    return (Group(name=f"container {c.name}", members=(container(c.id), *units), ties=("one container",), at_work=words),)


def _at_work(e: Evidence) -> Iterator[str]:
    """Who is; where nobody could look, somebody may be."""
    probe = value_of(e.probe)
    if probe is not None and probe.exit == 0:
        yield f"its application answers the configured probe in {probe.seconds:.1f} s"
    yield from (m.says for m in value_of(e.work) or ())
    if isinstance(e.work, Unknown):
        yield f"whether somebody is at work was not read ({e.work.why})"


def moving(e: Evidence) -> tuple[Moving, ...]:
    """Of whom it is known that they are at work: a person who chooses a plan all the same knows of them, and of nobody else."""
    return tuple(Moving(pid=m.pid, start_ticks=m.start_ticks) for m in value_of(e.work) or ())
