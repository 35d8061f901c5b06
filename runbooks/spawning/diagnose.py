"""Judges one worker that does not come up: the one transition that is missing, and what should have caused it. Pure."""

import shlex

from runbooks.core.reading import Absent, Known
from runbooks.core.rules import book, by_the_rules
from runbooks.core.unexplained import not_used
from runbooks.core.verdict import Certainty, Diagnosis, Finding, State
from runbooks.spawning.all_workers import judge_all
from runbooks.spawning.around import DONE, ELSEWHERE, judge_around, judge_others
from runbooks.spawning.company import group_of
from runbooks.spawning.evidence import Evidence
from runbooks.spawning.inside import UP, judge_inside, judge_without_inside
from runbooks.spawning.limits import Limits
from runbooks.spawning.plans import offer, storm
from runbooks.spawning.pods import judge_pod
from runbooks.spawning.typed import log_in
from runbooks.spawning.view import LIKELY, SURE, View
from runbooks.spawning.words import in_shell, in_sql, is_plain
from runbooks.triage.text import findings_of

__all__ = ["Limits", "diagnose", "is_coming"]

NEXT = {
    "spawning": "spawning → active: the orchestrator starts the worker over SSH and promotes the row",
    "active": "active → processing: the worker claims a task",
    "processing": "processing → idle: the worker ends its task",
    "idle": "idle → terminated: the orchestrator ends it after the idle time-out",
}
ALWAYS = (
    "shut down all workers, or terminate pods by a listing: one pod, by its id",
    "read one null runtime or one missing answer as a death",
)
WARN = {
    "image-pulling": "do not terminate and respawn inside the pull budget: the pull begins again and is paid again",
    "image-unpullable": "do not respawn in a loop: the same layer fails on every such host, whatever a NO_CAPACITY label says",
    "start-command-fails": "do not wait longer, and do not respawn on other machines or GPU types: the same command ends there, too",
    "setup-step-failed": "do not terminate and respawn before that step is mended: every pod of this kind meets it",
    "out-of-credit": "do not respawn, and do not mark the row so that another is spawned: no create call works without credit",
    "driver-too-old": "do not give the task to the same host, and do not change the driver of a rented host",
    "host-gpus-taken": "do not terminate the stopped pod before its local disk is copied",
    "ssh-key-wrong": "do not rotate keys before ssh-auth-failure has named the cause",
    "running-without-address": "do not rotate keys and do not name a cause: its log decides",
    "no-container": "do not name a cause without the pod's log",
    "orchestrator-down": "do not end pods: nothing would spawn the next ones",
    "worker-died": "do not respawn before its last words were read: the next one would end alike",
    "task-held-by-dead-worker": "do not give back all tasks: only those whose worker is proven dead, once each",
    "pod-without-row": "do not end a pod of which it is not proven that it is this orchestrator's own",
    "queue-not-served": "do not start workers by hand beside an orchestrator that may spawn them too",
    "private-half-missing": "do not generate a new pair: the public half that is set still lets its own private half in",
    "request-too-narrow": "do not retry in a loop: where the request is the reason, no retry finds a host",
    "pod-host-key-changed": "do not log in: it is another machine, or somebody between",
}


@by_the_rules("stuck-spawning")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment of one worker, or of all that are past their limit."""
    return _one(evidence, limits) if evidence.worker else judge_all(evidence, limits, diagnose, judge_shared)


def _one(evidence: Evidence, limits: Limits) -> Diagnosis:
    if isinstance(evidence.row, Absent):
        return _no_row(evidence, evidence.row.proof)
    v = View(evidence, limits)
    judge_around(v)
    if v.row and v.row.status not in DONE:
        judge_pod(v)
        judge_inside(v)
        judge_without_inside(v)
    rank = {Certainty.CONFIRMED: 0, Certainty.LIKELY: 1, Certainty.POSSIBLE: 2, Certainty.RULED_OUT: 3}
    v.causes.sort(key=lambda c: (rank[c.certainty], c.slug == "heartbeat-old"))
    judge_others(v)
    state = _state(v)
    plans, withheld = offer(v)
    return Diagnosis(
        state=state,
        headline=_headline(v, state),
        symptom=_symptom(v),
        causes=tuple(v.causes),
        must_not=(*dict.fromkeys(WARN[c.slug] for c in v.causes if c.slug in WARN), *ALWAYS),
        plans=plans,
        do_now=_do_now(v, withheld),
        waiting_costs=_costs(v),
        findings=(*_findings(v), *_worker_log(v), *_not_used(v)),
        unknowns=v.unknowns,
        by_hand=_by_hand(v),
        groups=(group_of(v),),
    )


def judge_shared(evidence: Evidence, limits: Limits) -> Diagnosis:
    """What concerns all workers: the orchestrator, its variables, the records, the queue. Whatever was read of a worker
    itself plays no part."""
    v = View(evidence, limits)
    judge_around(v)
    judge_others(v)
    plans, withheld = offer(v)
    faults = [c for c in v.causes if not c.innocent]
    sick = any(c.certainty in (SURE, LIKELY) for c in faults)
    return Diagnosis(
        state=State.SICK if sick else State.CANNOT_TELL if faults else State.HEALTHY,
        headline="; ".join(f"{c.slug}: {c.evidence[0]}" for c in faults[:3]),
        causes=tuple(v.causes),
        must_not=tuple(dict.fromkeys(WARN[c.slug] for c in v.causes if c.slug in WARN)),
        plans=plans,
        do_now=_do_now(v, withheld),
        waiting_costs=_leaks(v),
        findings=_findings(v),
        unknowns=v.unknowns,
    )


def is_coming(evidence: Evidence, limits: Limits) -> bool:
    """Whether the worker is merely on its way as far as was read: waiting is the right thing, whatever else is not known."""
    d = _one(evidence, limits)
    row = evidence.row.value if isinstance(evidence.row, Known) else None
    return d.state is State.HEALTHY and row is not None and row.status in UP


def _no_row(e: Evidence, proof: str) -> Diagnosis:
    return Diagnosis(state=State.NOT_APPLICABLE, headline=f"no worker {e.worker}: {proof}", must_not=ALWAYS)


def _state(v: View) -> State:
    mine = [c for c in v.causes if not c.innocent and c.slug not in ELSEWHERE]
    if any(c.certainty in (SURE, LIKELY) for c in mine):
        return State.SICK
    if v.row is None or mine:
        return State.CANNOT_TELL
    if v.row.status in DONE:
        return State.HEALTHY
    if any(c.innocent and c.certainty in (SURE, LIKELY) for c in v.causes):
        return State.HEALTHY
    young = v.row.status == "spawning" and v.waits_s <= v.limits.spawning_s
    needed = isinstance(v.e.pod, Known) and (v.row.status != "spawning" or young or isinstance(v.e.inside, Known))
    return State.HEALTHY if needed else State.CANNOT_TELL


def _headline(v: View, state: State) -> str:
    first = next((c for c in v.causes if not c.innocent and c.slug not in ELSEWHERE), v.causes[0] if v.causes else None)
    status = v.row.status if v.row else "unread"
    if first is None:
        words = (
            "comes up or works as it should"
            if state is State.HEALTHY
            else f"cannot tell: {'; '.join(v.unknowns) or 'not enough was read'}"
        )
        return f"{v.subject} ({status}) {words}"
    return f"{v.subject} ({status}): {first.slug}: {first.evidence[0]}"


def _symptom(v: View) -> str:
    if v.row is None:
        return "its row could not be read"
    step = NEXT.get(v.row.status)
    waited = f"; this run waited {v.e.waited_s:.0f} s for it" if v.e.waited_s else ""
    return f"status {v.row.status} for {v.waits_s:.0f} s" + (f"; missing: {step}" if step else "") + waited


def _do_now(v: View, withheld: tuple[str, ...]) -> tuple[str, ...]:
    out = list(withheld)
    if any(c.slug == "image-pulling" for c in v.causes) and not any(
        not c.innocent for c in v.causes if c.slug not in ELSEWHERE
    ):
        more = f"--option wait={max(60, round((v.until - v.e.taken_at).total_seconds()))}"
        out.append(f"wait until {v.until:%H:%M:%S} UTC, then run this again; or let it wait for you: {more}")
    if any(c.slug == "ssh-key-wrong" for c in v.causes):
        out.append("go on with ssh-auth-failure for this pod: the stage and the cause are named there")
    if any(c.slug == "request-too-narrow" and c.certainty is SURE for c in v.causes):
        out.append(
            "widen the request, or move the network volume; the orchestrator's next create call then finds a host"
        )
    out += [f"{c.slug}: look at {d}" for c in v.causes for d in c.decides if c.certainty is not SURE]
    if v.causes and storm(v).startswith(tuple("0123456789")):
        out.append(storm(v))
    return tuple(dict.fromkeys(out))


def _costs(v: View) -> tuple[str, ...]:
    pod = v.pod
    if pod is None or not pod.cost_per_hour:
        return ()
    so_far = pod.cost_per_hour * v.waits_s / 3600
    return (f"pod {pod.id} costs {pod.cost_per_hour:.2f} an hour, {so_far:.2f} since it was started",)


def _leaks(v: View) -> tuple[str, ...]:
    """What the pods cost that no row names."""
    nobodys = {c.subject for c in v.causes if c.slug == "pod-without-row"}
    mine = [p for p in v.pods if f"pod {p.id}" in nobodys and p.cost_per_hour]
    return tuple(f"pod {p.id} costs {p.cost_per_hour:.2f} an hour, and no live row names it" for p in mine)


def _findings(v: View) -> tuple[Finding, ...]:
    priority = {SURE: "HIGH", LIKELY: "MEDIUM"}
    return tuple(
        Finding(priority=priority.get(c.certainty, "LOW"), category="Worker" if c.slug not in ELSEWHERE else "Records",
                issue=f"{c.slug}: {c.evidence[0]}", action=c.decides[0] if c.decides else book("stuck-spawning").causes[c.slug].remedy)
        for c in v.causes if not c.innocent and c.certainty is not Certainty.RULED_OUT
    )  # fmt: skip


def _not_used(v: View) -> tuple[Finding, ...]:
    """What the orchestrator's last words about this worker say and no cause cites."""
    told = " ".join(line for c in v.causes for line in c.evidence)
    steps = v.orch.step_failed if v.orch and v.causes else ()
    return tuple(not_used(f"orchestrator: {x}") for x in steps if x not in told)


def _worker_log(v: View) -> tuple[Finding, ...]:
    """What the log of a worker that ended says by the knowledge base."""
    lines = (v.inside.log if v.inside else ()) or v.stored
    return findings_of(lines, "the worker's log", "stuck-spawning") if any(not c.innocent for c in v.causes) else ()


def _by_hand(v: View) -> tuple[str, ...]:
    pod = v.row.pod_id if v.row and is_plain(v.row.pod_id) else "POD"
    names, log = v.e.names, v.e.names.log or "/workspace/logs/{worker}.log"
    way = log_in(v.pod, names) if v.pod and v.pod.ip and v.pod.ssh_port else f"ssh -p PORT {names.user}@IP"
    look = f"ps aux | grep worker; tail -50 {shlex.quote(log.replace('{worker}', in_shell(v.e.worker)))}"
    return (
        f"SELECT * FROM {names.table} WHERE {names.id} = {in_sql(v.e.worker)};",  # noqa: S608
        f"runpodctl get pod {pod} --allfields",
        "railway logs | grep 'ORCHESTRATOR CYCLE' | tail -3",
        f"{way} {shlex.quote(look)}",
    )
