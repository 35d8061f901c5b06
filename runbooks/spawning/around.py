"""Judges what surrounds the worker: orchestrator, variables, database against provider, stale workers, held tasks."""

from collections.abc import Iterator

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Cause
from runbooks.parsers.railway import FAILED
from runbooks.parsers.runpod import Phase, Pod
from runbooks.parsers.worker_rows import TaskRow
from runbooks.spawning.view import SpawningView

CLOCKS_S = 120.0  # design: clocks of a database and a pod; what turns on it is *likely* at most
LIVE = ("active", "processing", "idle")
DONE = ("terminated", "failed", "error")
ELSEWHERE = ("pod-without-row", "row-without-pod", "task-held-by-dead-worker", "queue-not-served")  # not of one worker
DEAD = (
    "worker-died",
    "pod-gone",
    "pod-stopped",
    "pod-stopped-by-user",
    "pod-stopped-by-provider",
    "outbid",
    "out-of-credit",
)


def judge_around(v: SpawningView) -> None:
    """The orchestrator first: nothing is promoted without it."""
    _orchestrator(v)
    _variables(v)
    rows = v.e.row if v.e.worker else v.e.workers
    if isinstance(rows, Unknown) and rows.reason is not UnknownReason.NOT_ASKED:
        v.say("database-unreadable", POSSIBLE, f"the workers' table: {rows.why}", about="the database",
              decides=("gpu-runbooks doctor",))  # fmt: skip
    if isinstance(v.e.pods, Unknown) and v.e.pods.reason is UnknownReason.DENIED:
        refused(v, v.e.pods)
    if v.row:
        judge_stale(v)


def refused(v: SpawningView, why: Unknown) -> None:
    """The provider's API takes the call for somebody who may not ask. Said once."""
    if not v.has("api-refused"):
        v.say("api-refused", SURE, f"the provider's API: {why.detail}", about="the provider's API",
              decides=("one call with the same key by hand",))  # fmt: skip


def judge_others(v: SpawningView) -> None:
    """Seen on the way, about other workers and pods. Read only."""
    _records(v)
    _of_a_life_before(v)
    _held(v)
    _queue(v)


def _orchestrator(v: SpawningView) -> None:
    deployment = v.e.deployment.value if isinstance(v.e.deployment, Known) else ""
    if deployment in ("CRASHED", "FAILED", "REMOVED", "SLEEPING"):
        v.say("orchestrator-down", SURE, f"the platform says {deployment}", about="the orchestrator")
    elif v.orch and v.cycling is False:
        age = v.age(v.orch.last_cycle) or 0.0
        v.say(
            "orchestrator-down",
            SURE,
            f"its last cycle line is {age:.0f} s old (limit {v.limits.cycle_s:.0f} s)",
            about="the orchestrator",
        )
    elif v.orch and v.orch.lines >= 50 and not v.orch.cycles:
        v.say("orchestrator-down", LIKELY, f"no cycle line among its last {v.orch.lines} lines", about="the orchestrator",
              decides=("the deployment's state; does it log cycles at this level?",))  # fmt: skip
    if deployment and v.e.service and v.e.newer and v.e.newer[0].status == FAILED:
        kept = f"{v.e.service.words} is still in service ({v.e.service.status})"
        v.say("deployment-failed", LIKELY, f"{v.e.newer[0].words} failed", kept, about="the orchestrator",
              decides=("the build log of the failed deployment: what it changes, and whether somebody took it back",))  # fmt: skip
    if v.orch and v.orch.database_failed and not v.has("database-writes-fail"):
        v.say("database-writes-fail", LIKELY, *v.orch.database_failed[-2:], about="the orchestrator")


def _variables(v: SpawningView) -> None:
    if not isinstance(v.e.variables, Known):
        return
    x = v.e.variables.value
    if x.private_fault:
        v.say("private-half-missing", SURE if x.sealed_known else LIKELY, f"the orchestrator's private key: {x.private_fault}",
              f"public half: {x.public_fingerprint or 'not set either'}", about="the orchestrator's variables")  # fmt: skip
    elif x.private_fingerprint and x.public_fingerprint and x.private_fingerprint != x.public_fingerprint:
        v.say("key-halves-differ", SURE, f"private {x.private_fingerprint}", f"public {x.public_fingerprint}",
              about="the orchestrator's variables")  # fmt: skip


def judge_stale(v: SpawningView) -> None:
    """An active worker that does not report, claims nothing, or never changes."""
    row = v.row
    if row is None or row.status not in LIVE:
        return
    beat, still = v.age(row.heartbeat), v.age(row.changed)
    mine = [t for t in v.tasks if t.worker == row.id]
    if beat is None or beat > v.limits.heartbeat_s:
        said = "no heartbeat" if beat is None else f"heartbeat {beat:.0f} s old"
        v.say("heartbeat-old", LIKELY, f"status {row.status}, {said}", decides=("whether its process runs in its pod",))
    queued = v.e.queued.value if isinstance(v.e.queued, Known) else 0
    up = v.age(row.created) or 0.0
    if beat is not None and beat <= v.limits.heartbeat_s and not mine and queued and up > v.limits.still_s:
        if still is None or still > v.limits.still_s:
            v.say(
                "claims-nothing",
                LIKELY,
                f"{queued} tasks wait and it holds none",
                decides=("the claim function; the task types it takes",),
            )
    elif not v.has("heartbeat-old") and (still or 0.0) > v.limits.still_s and row.status == "processing" and not mine:
        v.say("status-still", LIKELY, f"status {row.status} for {still:.0f} s without a task", decides=("its log",))


def unnamed(v: SpawningView) -> Iterator[Pod]:
    """Pods that run or start and that no live row names."""
    named = {w.pod_id for w in v.workers if w.pod_id and w.status not in DONE}
    yield from (p for p in v.pods if p.id not in named and p.phase in (Phase.RUNNING, Phase.STARTING))


def _records(v: SpawningView) -> None:
    """Provider and database disagree about other pods. Read only."""
    if not isinstance(v.e.pods, Known) or not isinstance(v.e.workers, Known):
        return
    for p in unnamed(v):
        if (v.age(p.created_at or p.started_at) or 0.0) > v.limits.leak_age_s:
            cost = f", {p.cost_per_hour:.2f} an hour" if p.cost_per_hour else ""
            v.say("pod-without-row", POSSIBLE, f"pod {p.id} ({p.name}) runs{cost} and no live row names it", about=f"pod {p.id}",
                  decides=("a second look minutes later; is it somebody else's?",))  # fmt: skip
    there = {p.id for p in v.pods}
    for w in v.workers:
        if w.id != v.e.worker and w.pod_id and w.status in LIVE and w.pod_id not in there:
            v.say("row-without-pod", POSSIBLE, f"row {w.id} ({w.status}) names pod {w.pod_id}, which is not listed", about=f"worker {w.id}",
                  decides=("a run of this runbook on that worker",))  # fmt: skip


def _queue(v: SpawningView) -> None:
    """Tasks wait, and no worker lives or comes up that could take one."""
    waiting = v.e.queued.value if isinstance(v.e.queued, Known) else 0
    if not waiting or not isinstance(v.e.workers, Known) or any(w.status not in DONE for w in v.workers):
        return
    idle = [p for p in v.pods if p.phase in (Phase.RUNNING, Phase.STARTING)]
    paid = f"{len(idle)} pods run meanwhile{_cost(idle)}" if idle else ""
    words = (f"{waiting} tasks wait, and no row is of a worker that lives or comes up", *([paid] if paid else []))
    last = v.orch.last_cycle if v.orch else None
    turn = "" if last is None else f" (its last cycle was {v.age(last) or 0.0:.0f} s ago)"
    v.say("queue-not-served", LIKELY if idle or v.cycling is False else POSSIBLE, *words, about="the queue",
          decides=(f"whether the orchestrator's next cycle spawns a worker{turn}", "how old the oldest waiting task is"))  # fmt: skip


def _cost(pods: list[Pod]) -> str:
    cost = sum(p.cost_per_hour or 0.0 for p in pods)
    return f", {cost:.2f} an hour" if cost else ""


def _claim(v: SpawningView, t: TaskRow) -> str:
    since = v.age(t.claimed)
    return f"task {t.id} is in progress at {t.worker}" + (f", claimed {since:.0f} s ago" if since is not None else "")


def is_of_others(v: SpawningView, cause: Cause) -> bool:
    """Seen on the way: not of the worker that is judged."""
    return cause.slug in ELSEWHERE and cause.subject != v.subject


def _of_a_life_before(v: SpawningView) -> None:
    """Tasks that this worker had claimed before any process of it began: what claimed them has ended, whatever reports now."""
    began = max((p.age_s for p in v.inside.processes), default=None) if v.inside else None
    if began is None:
        return
    old = [t for t in v.tasks if t.worker == v.e.worker and (v.age(t.claimed) or 0.0) > began + CLOCKS_S]
    if old:
        words = f"its oldest process runs for {began:.0f} s"
        check = ("whether a worker takes up its former tasks when it starts again", "the queue's own rule for giving a task back")
        v.say("task-held-by-dead-worker", LIKELY, *(_claim(v, t) for t in old[:5]), words, about=v.subject, decides=check)


def _held(v: SpawningView) -> None:
    """Tasks in progress whose worker is dead, unknown, or proven dead by this look."""
    live = {w.id for w in v.workers if w.status not in DONE}
    if v.has(*DEAD) and not v.reports:
        live.discard(v.e.worker)
    dead = [t for t in v.tasks if t.worker and t.worker not in live] if isinstance(v.e.workers, Known) else []
    if dead:
        v.say("task-held-by-dead-worker", LIKELY, *(_claim(v, t) for t in dead[:5]), about="tasks",
              decides=("the queue's own rule for giving a task back",))  # fmt: skip
