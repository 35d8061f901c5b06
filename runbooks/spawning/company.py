"""A pod, its worker and the row are one: while the worker reports or works on a task, none of them is ended. Pure."""

from runbooks.core.verdict import Group
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
