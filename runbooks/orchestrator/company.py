"""A pod, the rows that own it and its worker are one: while a worker reports, none of them is ended. Pure."""

from collections.abc import Iterator

from runbooks.core.verdict import Group
from runbooks.orchestrator.sides import Sides
from runbooks.parsers.worker_rows import WorkerRow


def groups(s: Sides) -> Iterator[Group]:
    """Each pod of ours with the rows that own it, and each row whose pod is not there."""
    for pod in s.there:
        owners = s.owners(pod)
        ties = ("the row names the pod, by its id or its name",) if owners else ()
        names = {f"pod {pod.id}", f"worker {pod.name}", *(x for r in owners for x in _members(r))}
        yield Group(name=f"pod {pod.id}", members=tuple(sorted(names)), ties=ties, at_work=_at_work(s, owners))
    for row in s.podless():
        yield Group(name=f"worker {row.id}", members=_members(row), ties=("the row names the pod",), at_work=_at_work(s, (row,)))


def _members(row: WorkerRow) -> tuple[str, ...]:
    return (*([f"pod {row.pod_id}"] if row.pod_id else []), f"worker {row.id}")


def _at_work(s: Sides, rows: tuple[WorkerRow, ...]) -> tuple[str, ...]:
    return tuple(f"worker {r.id} reports: its heartbeat is {s.age(r.heartbeat):.0f} s old" for r in rows if s.reports(r))
