"""A pod, its worker and the row are one: while the worker reports or works on a task, none of them is ended. The orchestrator is
not deployed again while it spawns. Pure."""

from runbooks.core.members import ORCHESTRATOR
from runbooks.core.reading import value_or
from runbooks.core.verdict import Group
from runbooks.parsers.worker_rows import WorkerRow
from runbooks.spawning.inside import UP
from runbooks.spawning.view import SpawningView


def group_of(v: SpawningView) -> Group:
    """The worker with its pod, and what shows that it is at work."""
    pods = {p for p in (v.pod.id if v.pod else "", (v.row.pod_id or "") if v.row else "") if p}
    return Group(
        name=f"worker {v.e.worker}",
        members=(v.subject, *(f"pod {p}" for p in sorted(pods))),
        ties=("the row names the pod",),
        at_work=_at_work(v),
    )


def _at_work(v: SpawningView) -> tuple[str, ...]:
    words = [f"the worker reports: its heartbeat is {v.age(v.row.heartbeat):.0f} s old"] if v.reports and v.row else []
    held = [t.id for t in v.tasks if t.worker == v.e.worker]
    if held and v.inside and v.inside.processes:
        words.append(f"the worker's process runs, with {', '.join(held[:3])} in progress")
    return tuple(words)


def orchestrator_of(v: SpawningView) -> Group:
    """The orchestrator, and what it is in the middle of: a pod that it asks for and has not written down yet is lost with its process."""
    rows: tuple[WorkerRow, ...] = value_or(v.e.workers, ())
    ages = [(r.id, v.age(r.created)) for r in rows if r.status in UP and not r.pod_id]
    young = [(ident, age) for ident, age in ages if age is not None and age <= v.limits.spawning_s]
    words = [f"it is spawning worker {ident}, for {age:.0f} s, and its row names no pod yet" for ident, age in young]
    return Group(name="the orchestrator", members=(ORCHESTRATOR,), ties=("one process",), at_work=tuple(words) if v.cycling else ())
