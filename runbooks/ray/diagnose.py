"""Judges a Ray job that looks stuck or failed: what failed first, or which phase it is in and whether that is late."""

from collections.abc import Iterator

from runbooks.core.headline import of_cause
from runbooks.core.judgment import credible, diagnosis, findings, ordered, state_of
from runbooks.core.reading import Absent, Known, Unknown, value_of
from runbooks.core.rules import book, by_the_rules
from runbooks.core.sizes import size
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from runbooks.ray.actors import files_of, judge_actors, node_logs
from runbooks.ray.cluster import judge_cluster, judge_leftovers
from runbooks.ray.company import groups
from runbooks.ray.evidence import Evidence, RayJob
from runbooks.ray.identity import of_job
from runbooks.ray.limits import Limits
from runbooks.ray.plans import plans_for
from runbooks.ray.progress import all_lines, judge_start, unread_logs
from runbooks.ray.submission import judge_job, not_begun, waiting_actors
from runbooks.ray.words import cause
from runbooks.triage.text import findings_of, meanings

SLUG = "ray-job"
ENDED = ("FAILED", "STOPPED", "SUCCEEDED")
OF_ACTORS = {"actor-failed", "actor-out-of-memory", "actor-gpu-memory", "actor-node-lost", "actor-import-error", "actor-crashed"}
EXPLAINS = {
    "entrypoint-failed": OF_ACTORS,
    "resources-busy": {"nodes-missing"},
    "harmless-lines": {"raylet-dead", "raylet-stuck"},
}  # what another subject can be the reason of: the driver's error, a shortage, a line about an agent


@by_the_rules("ray-job")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The judgment. Pure."""
    e = evidence
    if isinstance(e.job, Absent) and (e.submission_id or not e.dashboard):  # without a job the cluster itself is judged
        return Diagnosis(state=State.NOT_APPLICABLE, headline=f"no job to judge at {e.cluster}: {e.job.proof}")
    job = value_of(e.job)
    causes = judge_cluster(e, limits)
    if job is not None:
        died = judge_actors(e, job, limits.memory_kill_window_s)
        causes += beside(_as_said(job, judge_job(e, job, limits)), [*causes, *died]) + died + judge_leftovers(e, job)
        if job.status not in ENDED:
            causes += judge_start(e, limits, quiet=bool([c for c in causes if not c.benign] or _nameless(e, job)))
    for noise in meanings(all_lines(e), {"noise": ("ray-job/harmless-lines",)}).values():
        words = f"lines such as: {noise.evidence[0].text[:160]}"
        causes += beside([cause("harmless-lines", Certainty.CONFIRMED, "the logs", words, benign=True)], causes)
    return _answer(e, _ordered(causes), limits)


def beside(claimed: list[Cause], found: list[Cause]) -> list[Cause]:
    """What the job or its logs say, not confirmed beside something of its nodes or its actors that explains it too.

    An end of which the driver's log names no reason of its own is no cause beside such a one."""
    slugs = {c.slug for c in found}
    claimed = [c for c in claimed if c.slug != "entrypoint-failed" or c.certainty is Certainty.CONFIRMED or not slugs & OF_ACTORS]
    return [c.model_copy(update={"certainty": Certainty.LIKELY, "decides": (*c.decides, "which of them came first")})
            if c.certainty is Certainty.CONFIRMED and slugs & EXPLAINS.get(c.slug, set()) else c for c in claimed]  # fmt: skip


def _as_said(job: RayJob, claimed: list[Cause]) -> list[Cause]:
    """That no driver of it was made is not confirmed where its record does not say whether one was."""
    if job.job_id is not None:
        return claimed
    asks = "whether a driver of it was made: its record does not say"
    return [c.model_copy(update={"certainty": Certainty.LIKELY, "decides": (asks, *c.decides)})
            if c.slug == "driver-never-ran" and c.certainty is Certainty.CONFIRMED else c for c in claimed]  # fmt: skip


def _ordered(causes: list[Cause]) -> tuple[Cause, ...]:
    """Each once, in the order of runbook.yaml."""
    seen: dict[tuple[str, str], Cause] = {}
    for c in causes:
        seen.setdefault((c.slug, c.subject), c)
    return ordered(SLUG, seen.values())


def _answer(e: Evidence, causes: tuple[Cause, ...], limits: Limits) -> Diagnosis:
    over = isinstance(e.job, Known) and e.job.value.status in ENDED
    waiting = () if over or any(c.slug != "harmless-lines" for c in causes) else _waits(e)
    unjudged = (*_not_judged(e), *waiting)
    blind = isinstance(e.job, Unknown) or (not over and bool(_unread(e))) or any(_of(j) for j in _running_beside(e)) or bool(waiting)
    state = state_of(causes, blind=blind)
    about = f"job {e.submission_id}" if e.submission_id else f"cluster {e.cluster}"
    first, wrong = causes[0] if causes else None, any(not c.benign for c in causes)
    nothing = "cannot tell: " + "; ".join((*(f"{n} not read" for n in _unread(e)), *unjudged)) if blind else "nothing wrong was seen"
    headline = of_cause(book(SLUG), first, about) if first else f"{about}: {nothing}"
    hands_off = (f"touch {e.cluster}: the fleet file says hands off",) if e.hands_off else ()
    plans, withheld = plans_for(e, causes) if state is State.UNHEALTHY and not e.hands_off else ((), ())
    return diagnosis(
        SLUG,
        causes,
        state=state,
        headline=headline,
        symptom=_symptom(e),
        must_not=(*hands_off, "run `ray stop` on a node: it ends every Ray process there, of every job"),
        plans=plans,
        after=withheld,
        findings=(
            *findings(SLUG, credible(causes), "ray"), *_full_disks(e, limits),
            *(findings_of(all_lines(e), "its logs", SLUG) if wrong else ()),
        ),
        unknowns=unjudged,
        by_hand=_by_hand(e),
        groups=groups(e, limits),
    )


def _full_disks(e: Evidence, limits: Limits) -> Iterator[Finding]:
    """Nodes where Ray can write next to nothing more: no cause by itself, and never left unsaid."""
    for n in node_logs(e):
        if n.disk_free_bytes is None or n.disk_free_bytes >= limits.disk_free_min_bytes:
            continue
        largest = max(files_of(n), key=lambda f: f.size_bytes, default=None)
        of = f"; the largest log that was seen is {largest.path} with {size(largest.size_bytes)}" if largest else ""
        issue = f"{n.node}: the disk of Ray's temp dir has {size(n.disk_free_bytes)} free{of}"
        action = "make room there by hand (`du -x` on that disk): without it logs, spilling and environments fail"
        yield Finding(priority="HIGH", category="ray", issue=issue, action=action)


def _unread(e: Evidence) -> tuple[str, ...]:
    """What a job that runs needs to be called well: the head's lists, and the logs of every node that is named."""
    lists = [n for n in ("job", "nodes", "actors", "groups") if isinstance(getattr(e, n), Unknown)]
    return (*lists, *(("a node's logs",) if unread_logs(e) else ()))


def _not_judged(e: Evidence) -> tuple[str, ...]:
    """Jobs that run and that this look said nothing of: those that a driver started have no record to judge them by."""
    runs = _running_beside(e)
    return tuple(f"job {j.submission_id or j.job_id or 'without an id'} ({j.status}{_of(j)}) was not judged" for j in runs)


def _waits(e: Evidence) -> tuple[str, ...]:
    """The job itself before it begins, and actors of it that wait, where no cause says for what."""
    job = value_of(e.job)
    if job is None:
        return ()
    found = [not_begun(e, job)] if job.status == "PENDING" else []
    found += [f"actor {a.actor_id} ({a.class_name}) waits to be placed" for a in waiting_actors(e, job)[:5]]
    return (*(f"{words}, and nothing that was read explains it" for words in found), *_nameless(e, job))


def _nameless(e: Evidence, job: RayJob) -> tuple[str, ...]:
    """What waits to be placed and may be of this job: one of the records does not say."""
    actors = [a for a in value_of(e.actors) or () if a.state == "PENDING_CREATION" and of_job(a, job) is None]
    groups = [g for g in value_of(e.groups) or () if g.state == "PENDING" and g.job_id and job.job_id is None]
    what = (*(f"actor {a.actor_id} ({a.class_name})" for a in actors), *(f"placement group {g.name or g.id[:12]}" for g in groups))
    return tuple(f"{x} waits to be placed, and whether it is of this job was not said" for x in what[:5])


def _running_beside(e: Evidence) -> tuple[RayJob, ...]:
    judged = value_of(e.job)
    mine = {judged.submission_id, judged.job_id} - {"", None} if judged else set()
    return tuple(j for j in value_of(e.other_jobs) or () if j.status not in ENDED and not mine & {j.submission_id, j.job_id})


def _of(job: RayJob) -> str:
    return "" if job.submission_id else ", started by a driver of its own"


def _symptom(e: Evidence) -> str:
    job = value_of(e.job)
    if isinstance(e.job, Absent):
        return f"{e.job.proof}; the cluster itself was judged"
    if job is None:
        return f"the job could not be read from {e.cluster}"
    return f"{job.submission_id} is {job.status}" + (f": {job.message[:200]}" if job.message else "")


def _by_hand(e: Evidence) -> tuple[str, ...]:
    at = f"--address {e.dashboard}"
    ident = e.submission_id or "SUBMISSION_ID"
    job = value_of(e.job)
    setup = ("tail /tmp/ray/session_latest/logs/runtime_env*.log   # on every node",) if job and job.status == "PENDING" else ()
    return (f"ray job status {at} {ident}", f"ray list actors {at} --detail", f"ray list placement-groups {at}", *setup,
            "ls -lt /tmp/ray/session_latest/logs/worker-*.err | head")  # fmt: skip
