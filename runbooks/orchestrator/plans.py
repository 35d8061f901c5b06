"""What may be done, one thing a plan: end a pod that nobody uses, or let a row follow its pod. As data."""

from collections.abc import Iterable

from runbooks.core.args.workers import EndPod, MarkWorkerRow, RecoverPodId, RowWas
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.typed_pods import asking, marking, naming
from runbooks.core.verdict import Cause, Certainty
from runbooks.core.worker_ids import is_plain
from runbooks.orchestrator.sides import Sides
from runbooks.parsers.runpod import Pod
from runbooks.parsers.worker_rows import WorkerRow

ENDS = ("orphan-pod", "ended-row-pod-bills", "exited-pod-costs")


def offer(s: Sides, causes: Iterable[Cause]) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """(plans, the most that are offered at once; why others are withheld)."""
    sure = {(c.slug, c.subject): c for c in causes if c.certainty is Certainty.CONFIRMED}
    made: list[Plan | str] = []
    for row in s.rows:
        if ("stale-row", f"worker {row.id}") in sure:
            made.append(_row(s, row))
    for pod in s.there:
        for slug in ENDS:
            if any(known == slug and _about(subject, pod) for known, subject in sure):
                made.append(_end(s, pod, slug))
        if ("lost-pod-id", f"pod {pod.id} of worker {pod.name}") in sure:
            made.append(_name(s, pod, s.by_id[pod.name]))
    plans = [p for p in made if isinstance(p, Plan)]
    most = s.limits.offered_most
    more = (f"{len(plans) - most} more pods and rows have a plan that is offered once these are done",) if len(plans) > most else ()
    return tuple(plans[:most]), (*(x for x in made if isinstance(x, str)), *more)


def _about(subject: str, pod: Pod) -> bool:
    return subject == f"pod {pod.id}" or subject.startswith(f"pod {pod.id} of ")


def _end(s: Sides, pod: Pod, slug: str) -> Plan | str:
    """One pod by its id, for good, if it and every row that owns it are as they were read."""
    by_hand = f"By hand, after that: {asking(s.e.names, pod.id, method='DELETE')}"
    if pod.locked:
        return f"pod {pod.id} is not ended from here: the provider marks it as locked. {by_hand}"
    if not isinstance(s.e.tasks, Known):
        return f"pod {pod.id} is not ended from here: the tasks in progress could not be read. {by_hand}"
    owners = s.owners(pod)
    worker = owners[0].id if owners else pod.name
    held = s.held(worker)
    args = EndPod(
        pod=pod.id, name=pod.name, status=pod.status, machine=pod.machine_id, worker=worker, tasks=held,
        rows=tuple(RowWas(worker=r.id, status=r.status, pod=r.pod_id) for r in owners),
    )  # fmt: skip
    disk = f"its container disk ({pod.disk_gb:g} GB)" if pod.disk_gb else "its container disk"
    kept = "what is on its network volume stays" if pod.network_volume else "and its volume disk: it has no network volume"
    tasks = f"in progress at it and to be given back: {', '.join(held)}" if held else "no task is in progress at it"
    step = Step(
        kind="terminate-pod", owner=f"pod:{pod.id}", args=args.plain(), commands=(asking(s.e.names, pod.id, method="DELETE"),),
        effect=f"pod {pod.id} is gone and costs nothing any more", loses=f"{disk}{'; ' if pod.network_volume else ' '}{kept}; {tasks}",
    )  # fmt: skip
    return Plan(name=f"end the pod: {pod.id}", steps=(step,), for_causes=(slug,), settle_s=10)


def _name(s: Sides, pod: Pod, row: WorkerRow) -> Plan | str:
    """The row names its pod again."""
    if not is_plain(row.id) or not is_plain(pod.id):
        return "a row or pod whose id is none that may stand in a command is not joined from here"
    args = RecoverPodId(worker=row.id, was=row.status, pod=pod.id)
    step = Step(
        kind="recover-pod-id", owner=f"worker:{row.id}", args=args.plain(), commands=(naming(args, s.e.names),),
        effect=f"the row names pod {pod.id}, so the orchestrator can look after it and end it",
    )  # fmt: skip
    return Plan(name=f"recover the pod id: {row.id}", steps=(step,), for_causes=("lost-pod-id",), settle_s=2)


def _row(s: Sides, row: WorkerRow) -> Plan | str:
    """The row follows a pod that is proven gone."""
    if not is_plain(row.id):
        return "a row whose id is none that may stand in a command is not marked from here"
    beat = row.heartbeat.isoformat() if row.heartbeat else None
    args = MarkWorkerRow(worker=row.id, was=row.status, to=s.e.marked, pod=row.pod_id, heartbeat=beat, gone=True)
    held = s.held(row.id)
    step = Step(
        kind="mark-worker-row", owner=f"worker:{row.id}", args=args.plain(), commands=(marking(args, s.e.names),),
        effect="the row says what the provider says",
        loses=f"tasks in progress at it stay as they are: {', '.join(held)}" if held else "nothing",
    )  # fmt: skip
    return Plan(name=f"mark the row: {row.id}", steps=(step,), for_causes=("stale-row",), settle_s=2)
