"""Judges one worker that does not come up: the one transition that is missing, and what should have caused it. Pure."""

import shlex
from itertools import takewhile

from runbooks.core.headline import of_cause
from runbooks.core.judgment import LIKELY, SURE, credible, findings, state_of, tier
from runbooks.core.reading import Absent, Known
from runbooks.core.rules import book, by_the_rules
from runbooks.core.times import utc
from runbooks.core.typed_pods import asking
from runbooks.core.unexplained import HISTORY, not_used
from runbooks.core.unread import missing
from runbooks.core.verdict import Diagnosis, Finding, State
from runbooks.core.worker_ids import in_shell, in_sql, is_plain
from runbooks.parsers.runpod import LogEvent, read_log_line
from runbooks.spawning.all_workers import judge_all
from runbooks.spawning.around import DONE, is_of_others, judge_around, judge_others
from runbooks.spawning.company import group_of, orchestrator_of
from runbooks.spawning.evidence import Evidence
from runbooks.spawning.inside import UP, judge_inside, judge_without_inside
from runbooks.spawning.limits import Limits
from runbooks.spawning.plans import common_cause, offer
from runbooks.spawning.pods import judge_pod
from runbooks.spawning.typed import log_in
from runbooks.spawning.view import SpawningView
from runbooks.triage.text import failures, findings_of

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


@by_the_rules("stuck-spawning")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment of one worker, or of all that are past their limit."""
    return _one(evidence, limits) if evidence.worker else judge_all(evidence, limits, diagnose, judge_shared)


def _one(evidence: Evidence, limits: Limits) -> Diagnosis:
    if isinstance(evidence.row, Absent):
        return _no_row(evidence, evidence.row.proof)
    v = SpawningView(evidence, limits)
    judge_around(v)
    if v.row and v.row.status not in DONE:
        judge_pod(v)
        judge_inside(v)
        judge_without_inside(v)
    judge_others(v)
    v.sort()
    state = _state(v)
    plans, withheld = offer(v)
    return v.diagnosis(
        state=state,
        headline=_headline(v, state),
        symptom=_symptom(v),
        must_not=ALWAYS,
        plans=plans,
        before=withheld,
        after=_also(v),
        waiting_costs=_costs(v),
        findings=(*_findings(v), *_worker_log(v), *_not_used(v)),
        by_hand=_by_hand(v),
        groups=(group_of(v), orchestrator_of(v)),
    )


def judge_shared(evidence: Evidence, limits: Limits) -> Diagnosis:
    """What concerns all workers: the orchestrator, its variables, the records, the queue. Whatever was read of a worker
    itself plays no part."""
    v = SpawningView(evidence, limits)
    judge_around(v)
    judge_others(v)
    v.sort()
    plans, withheld = offer(v)
    return v.diagnosis(
        state=state_of(v.causes),
        headline="; ".join(f"{c.slug}: {c.evidence[0]}" for c in v.causes[:3] if not c.benign),
        plans=plans,
        before=withheld,
        after=_also(v),
        waiting_costs=_leaks(v),
        findings=_findings(v),
        groups=(orchestrator_of(v),),
    )


def is_coming(evidence: Evidence, limits: Limits) -> bool:
    """Whether the worker is merely on its way as far as was read: waiting is the right thing, whatever else is not known."""
    d = _one(evidence, limits)
    row = evidence.row.value if isinstance(evidence.row, Known) else None
    return d.state is State.HEALTHY and row is not None and row.status in UP


def _no_row(e: Evidence, proof: str) -> Diagnosis:
    return Diagnosis(state=State.NOT_APPLICABLE, headline=f"no worker {e.worker}: {proof}", must_not=ALWAYS)


def _state(v: SpawningView) -> State:
    mine = [c for c in v.causes if not c.benign and not is_of_others(v, c)]
    if credible(mine):
        return State.UNHEALTHY
    if v.row is None or mine:
        return State.CANNOT_TELL
    if v.row.status in DONE:
        return State.HEALTHY
    if any(c.benign and c.certainty in (SURE, LIKELY) for c in v.causes):
        return State.HEALTHY
    young = v.row.status == "spawning" and v.waits_s <= v.limits.spawning_s
    needed = isinstance(v.e.pod, Known) and (v.row.status != "spawning" or young or isinstance(v.e.inside, Known))
    return State.HEALTHY if needed else State.CANNOT_TELL


def _headline(v: SpawningView, state: State) -> str:
    first = next((c for c in v.causes if not c.benign and not is_of_others(v, c)), v.causes[0] if v.causes else None)
    status = v.row.status if v.row else "unread"
    if first is None:
        words = (
            "comes up or works as it should"
            if state is State.HEALTHY
            else f"cannot tell: {'; '.join(missing(v.e)) or 'not enough was read'}"
        )
        return f"{v.subject} ({status}) {words}"
    return of_cause(book(v.slug), first, f"{v.subject} ({status})")


def _symptom(v: SpawningView) -> str:
    if v.row is None:
        return "its row could not be read"
    step = NEXT.get(v.row.status)
    waited = f"; this run waited {v.e.waited_s:.0f} s for it" if v.e.waited_s else ""
    return f"status {v.row.status} for {v.waits_s:.0f} s" + (f"; missing: {step}" if step else "") + waited


def _also(v: SpawningView) -> tuple[str, ...]:
    """What a person does besides."""
    out = []
    if any(c.slug == "image-pulling" for c in v.causes) and not any(tier(c) < 2 and not is_of_others(v, c) for c in v.causes):
        more = f"--option wait={max(60, round((v.until - v.e.taken_at).total_seconds()))}"
        out.append(f"wait until {utc(v.until)}, then run this again; or let it wait for you: {more}")
    if v.causes and common_cause(v).startswith(tuple("0123456789")):
        out.append(common_cause(v))
    return tuple(out)


def _costs(v: SpawningView) -> tuple[str, ...]:
    pod = v.pod
    if pod is None or not pod.cost_per_hour:
        return ()
    so_far = pod.cost_per_hour * v.waits_s / 3600
    return (f"pod {pod.id} costs {pod.cost_per_hour:.2f} an hour, {so_far:.2f} since it was started",)


def _leaks(v: SpawningView) -> tuple[str, ...]:
    """What the pods cost that no row names."""
    nobodys = {c.subject for c in v.causes if c.slug == "pod-without-row"}
    mine = [p for p in v.pods if f"pod {p.id}" in nobodys and p.cost_per_hour]
    return tuple(f"pod {p.id} costs {p.cost_per_hour:.2f} an hour, and no live row names it" for p in mine)


def _findings(v: SpawningView) -> tuple[Finding, ...]:
    mine = [c for c in v.causes if not is_of_others(v, c)]
    theirs = [c for c in v.causes if is_of_others(v, c)]
    return (*findings(v.slug, mine, "Worker"), *findings(v.slug, theirs, "Records"), *_outlived(v))


def _outlived(v: SpawningView) -> tuple[Finding, ...]:
    """What the pod's log reports of the pull before its container first started: that start came after it."""
    before = list(takewhile(lambda line: read_log_line(line) is not LogEvent.STARTED, v.log))
    if len(before) == len(v.log):
        return ()
    said = [line for slug, line in failures("\n".join(before))[0] if not slug]
    return tuple(
        Finding(priority="LOW", category=HISTORY, issue=f"before the container started: {line}", action="none: the start came after")
        for line in dict.fromkeys(said)
    )


def _not_used(v: SpawningView) -> tuple[Finding, ...]:
    """What the orchestrator's last words about this worker say and no cause cites."""
    told = " ".join(line for c in v.causes for line in c.evidence)
    steps = v.orch.step_failed if v.orch and v.causes else ()
    return tuple(not_used(f"orchestrator: {x}") for x in steps if x not in told)


def _worker_log(v: SpawningView) -> tuple[Finding, ...]:
    """What the log of a worker that ended says by the knowledge base."""
    lines = (v.inside.log if v.inside else ()) or v.stored
    return findings_of(lines, "the worker's log", "stuck-spawning") if any(not c.benign for c in v.causes) else ()


def _by_hand(v: SpawningView) -> tuple[str, ...]:
    pod = v.row.pod_id if v.row and is_plain(v.row.pod_id) else "POD"
    names, log = v.e.names, v.e.names.log or "/workspace/logs/{worker}.log"
    way = log_in(v.pod, names) if v.pod and v.pod.ip and v.pod.ssh_port else f"ssh -p PORT {names.user}@IP"
    look = f"ps aux | grep worker; tail -50 {shlex.quote(log.replace('{worker}', in_shell(v.e.worker)))}"
    return (
        f"SELECT * FROM {names.table} WHERE {names.id} = {in_sql(v.e.worker)};",  # noqa: S608
        asking(names, pod),
        "railway logs | grep 'ORCHESTRATOR CYCLE' | tail -3",
        f"{way} {shlex.quote(look)}",
    )
