"""What the head says of the job itself: why it did not start, what it waits for, how its entrypoint ended."""

from typing import TYPE_CHECKING

from runbooks.core.reading import Known, value_of, value_or
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.actors import files_of, named_by_driver, node_logs
from runbooks.ray.cluster import NAME, holders
from runbooks.ray.errors import first_error
from runbooks.ray.evidence import Actor, Evidence, PlacementGroup, RayJob
from runbooks.ray.parsers.ray_log import as_a_worker_said_it, is_of_setup
from runbooks.ray.placing import all_of, no_such_resource, packed_on_one_node, placed_when_empty
from runbooks.ray.words import cause
from runbooks.triage.text import meanings

if TYPE_CHECKING:
    from runbooks.ray.limits import Limits

TYPES = {"RUNTIME_ENV_SETUP_FAILURE": "runtime-env-failed", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "start-timed-out"}
NO_WORDS = "its record gives no reason"
STRATEGY = ("the group's strategy in `ray list placement-groups --detail`: STRICT_PACK wants it all on one node",
            "`ray status` once more: was the group only just asked for?")  # fmt: skip
RECORDS = ("the death records: `ray list actors --detail`, `ray list tasks --detail`", "the logs of their nodes")
SAYS = {slug: (f"ray-job/{slug}",) for slug in TYPES.values()}  # the same where an older Ray gives words and no type


def judge_job(e: Evidence, job: RayJob, limits: "Limits") -> list[Cause]:
    """Causes from the job's own record."""
    subject = f"job {job.submission_id}"
    if job.status == "STOPPED":
        return [cause("stopped-on-purpose", Certainty.CONFIRMED, subject, "its state is STOPPED", benign=True)]
    if job.status == "FAILED":
        return _failed(e, job, subject)
    found = _pending_groups(e, job, subject) or _pending_actors(e, job, subject)
    if job.status == "PENDING" and job.started_at:
        waited = (e.taken_at - job.started_at).total_seconds()
        lacking, short = no_such_resource(e, [[job.resources]], subject), _not_free(e, job.resources)
        if lacking:
            found.append(lacking)
        elif short:
            words = f"it waits since {waited:.0f} s for {short}"
            found.append(cause("resources-busy", Certainty.CONFIRMED, subject, words, *_held(e, job.resources)))
        elif said := setup_errors(e, job):
            check = ("whether it is this job's environment: the runtime_env of its record, and the time of those lines",)
            found.append(cause("runtime-env-failed", Certainty.LIKELY, subject, *said, f"it is PENDING for {waited:.0f} s", decides=check))
        elif waited > limits.job_start_timeout_s:
            words = f"PENDING for {waited:.0f} s, beyond the start limit of {limits.job_start_timeout_s:.0f} s"
            found.append(cause("start-timed-out", Certainty.LIKELY, subject, words))
    return found


def _failed(e: Evidence, job: RayJob, subject: str) -> list[Cause]:
    error, text = job.error_type, job.message
    told = TYPES.get(error) or next(iter(meanings(text, SAYS)), "")
    if told == "runtime-env-failed":
        return [cause("runtime-env-failed", Certainty.CONFIRMED, subject, text[:300] or error)]
    if told == "start-timed-out":
        short = _not_free(e, job.resources)
        free = "what it asked for is free now, or is held by its own leftover" if value_of(e.usage) else "what is free was not read"
        words = f"now: {short}" if short else free if job.resources else "it asked for nothing of its own"
        timed_out = cause("start-timed-out", Certainty.CONFIRMED, subject, text[:300] or error, words, *_held(e, job.resources))
        return [timed_out, *_in_vain(e, job, subject)]
    if error == "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE":
        lacking = no_such_resource(e, [[job.resources]], subject)
        if lacking:
            return [lacking.model_copy(update={"evidence": (*lacking.evidence, text[:300] or error)})]
        check = ("ray status of that time: what it asked for against what each node has, and who held it",)
        return [cause("resources-busy", Certainty.LIKELY, subject, text[:300] or error, *_held(e, job.resources), decides=check)]
    dead = next((a for a in _supervisors(e, job) if a.state == "DEAD" and a.actor_id in text), None)  # Ray up to 2.3 gives no type
    if error in ("JOB_SUPERVISOR_ACTOR_DIED", "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE") or dead:
        check = ("the supervisor's log on its node, the kernel log there",)
        return [cause("supervisor-died", Certainty.LIKELY, subject, text[:300] or error, decides=check)]
    if said := setup_errors(e, job):
        check = (f"runtime_env_setup-{job.job_id or 'JOB'}*.log on that node, to its end",)
        return [cause("runtime-env-failed", Certainty.LIKELY, subject, *said, decides=check)]
    driver = value_of(e.driver_log) or ()
    real = as_a_worker_said_it(first_error((*driver, *text.splitlines())), driver)
    if not real and job.exit_code is None and not job.job_id and not value_of(e.driver_log) and not _supervisors(e, job):
        return [_never_ran(e, job, subject)]
    code = f"its entrypoint ended with {job.exit_code}" if job.exit_code is not None else text[:200] or NO_WORDS
    if slug := named_by_driver(real):
        return [cause(slug, Certainty.LIKELY, subject, real, code, decides=RECORDS)]
    sure = Certainty.CONFIRMED if real else Certainty.LIKELY
    above: tuple[str, ...] = () if real else ("the driver's log above its end",)
    return [cause("entrypoint-failed", sure, subject, real or code, code if real else "", decides=above)]


def setup_errors(e: Evidence, job: RayJob) -> tuple[str, ...]:
    """What installed the job's environment and failed at it: lines of a raylet in its driver's log, and for a job that waits those of the
    logs of the raylets that were written since."""
    lines = [x for x in value_of(e.driver_log) or () if x.startswith("(raylet")]
    if job.status == "PENDING" and job.started_at:
        waited = (e.taken_at - job.started_at).total_seconds()
        new = [f for n in node_logs(e) for f in files_of(n) if is_of_setup(f.path) and f.age_s < waited]
        lines += [f"(raylet, {f.node}) {line}" for f in new for line in value_or(f.lines, ())]
    found = meanings(lines, {"runtime-env-failed": SAYS["runtime-env-failed"]})
    return tuple(x.text[:300] for c in found.values() for x in c.evidence[:3])


def _supervisors(e: Evidence, job: RayJob) -> list[Actor]:
    """Its supervisors that were a process at some time."""
    return [a for a in value_of(e.actors) or () if a.name == NAME + job.submission_id and (a.pid or a.state == "ALIVE")]


def _never_ran(e: Evidence, job: RayJob, subject: str) -> Cause:
    """No driver, no exit code, no line of a log and no supervisor with a process: nothing of the job ever ran."""
    took = (job.ended_at - job.started_at).total_seconds() if job.started_at and job.ended_at else None
    events = [x for n in node_logs(e) for x in n.events if job.submission_id in x]
    words = (
        "it FAILED before a driver of it was made: no driver, no exit code, an empty log, no supervisor with a process",
        job.message[:300] or NO_WORDS,
        f"it ended {took:.0f} s after it was submitted" if took is not None else "",
        *(f"the head's events: {x[:200]}" for x in events[-2:]),
    )
    unread = [n for n in ("actors", "driver_log") if not isinstance(getattr(e, n), Known)]
    sure = Certainty.LIKELY if unread else Certainty.CONFIRMED
    check = ("gcs_server.out and events/event_JOBS.log on the head, at that time", "whether the head was busy then (CPU, memory)")
    return cause("driver-never-ran", sure, subject, *words, decides=check)


def _in_vain(e: Evidence, job: RayJob, subject: str) -> list[Cause]:
    """What it may have waited for in vain: what the nodes do not have, or what is held now, and not by its own leftover."""
    lacking = no_such_resource(e, [[job.resources]], subject)
    if lacking:
        least = Certainty.LIKELY if lacking.certainty is Certainty.CONFIRMED else lacking.certainty
        then = (*lacking.decides, "which nodes were there while it waited")
        return [lacking.model_copy(update={"certainty": least, "decides": then})]
    left = [a for a in _supervisors(e, job) if a.state == "ALIVE"]
    own = {name: sum(a.resources.get(name, 0.0) for a in left) for name in job.resources}
    short = _not_free(e, job.resources, own)
    check = ("what was free while it waited: `ray status` and the jobs of that time",)
    words = f"others hold what it asked for: {short}"
    return [cause("resources-busy", Certainty.LIKELY, subject, words, *_held(e, job.resources), decides=check)] if short else []


def _not_free(e: Evidence, wanted: dict[str, float], own: dict[str, float] | None = None) -> str:
    """What of it others hold now, in words; `own`: what of the used is the job's own. What no node has at all is none of it."""
    usage = value_of(e.usage)
    if usage is None:
        return ""
    short = []
    for name, amount in wanted.items():
        used, total = usage.usage.get(name, (0.0, 0.0))
        used -= (own or {}).get(name, 0.0)
        if total and amount > total - used:
            short.append(f"{amount:g} {name} ({total - used:g} of {total:g} free)")
    return ", ".join(short)


def _held(e: Evidence, wanted: dict[str, float]) -> tuple[str, ...]:
    words = [w for name in wanted for w in holders(e, name)]
    return tuple(f"held by {w}" for w in dict.fromkeys(words))[:8]


def not_begun(e: Evidence, job: RayJob) -> str:
    """That it is PENDING, since when, and in which state its supervisor is: Ray starts that once the runtime_env is set up."""
    since = f" for {(e.taken_at - job.started_at).total_seconds():.0f} s" if job.started_at else ""
    states = sorted({a.state for a in value_of(e.actors) or () if a.name == NAME + job.submission_id})
    unknown = "its supervisor is listed nowhere" if value_of(e.actors) is not None else "its supervisor was not read"
    return f"job {job.submission_id} is PENDING{since} ({f'its supervisor is {states[0]}' if states else unknown})"


def waiting_actors(e: Evidence, job: RayJob) -> list[Actor]:
    """Actors of the job that are not placed yet."""
    return [a for a in value_of(e.actors) or () if a.state == "PENDING_CREATION" and a.job_id == job.job_id and job.job_id]


def _pending_actors(e: Evidence, job: RayJob, subject: str) -> list[Cause]:
    """Actors that wait for what no node has. Those bound to a placement group wait for the group."""
    free = [[a.resources] for a in waiting_actors(e, job) if not any("_group_" in name for name in a.resources)]
    lacking = no_such_resource(e, free, subject) if free else None
    return [lacking] if lacking else []


def _nobody_holds_any(e: Evidence, groups: list[PlacementGroup]) -> tuple[str, ...]:
    """Words where all that the groups ask for is free: nobody is waited for. Empty where some of it is held, or that was not read."""
    usage = value_of(e.usage)
    wanted = all_of([b for g in groups for b in g.bundles])
    read = [usage.usage.get(name, (0.0, 0.0)) for name in wanted] if usage else []
    if not read or any(used or not total for used, total in read):
        return ()
    have = ", ".join(f"0 of {total:g} {name}" for name, (_, total) in zip(wanted, read, strict=True))
    return (f"{len(groups)} placement groups are PENDING, and nobody holds any of what they ask for: {have} are in use",)


def _pending_groups(e: Evidence, job: RayJob, subject: str) -> list[Cause]:
    groups = [g for g in value_of(e.groups) or () if g.state == "PENDING" and g.job_id in ("", job.job_id)]
    if not groups:
        return []
    packed = [[all_of(g.bundles)] if packed_on_one_node(e, g.bundles) else g.bundles for g in groups]
    lacking = no_such_resource(e, packed, subject)
    if lacking:
        return [lacking]
    if idle := _nobody_holds_any(e, groups):
        return [cause("no-such-resource", Certainty.POSSIBLE, subject, *idle, decides=STRATEGY)]
    busy = [(g, said) for g in groups if (said := _not_free(e, all_of(g.bundles)))]  # each is placed for itself
    short = busy[0][1] if busy else ""
    enough = "enough is free in all, not on the nodes it needs" if value_of(e.usage) else "what is free was not read"
    words = f"{len(groups)} placement groups are PENDING: {short or enough}"
    sure = any(placed_when_empty(e, g.bundles) for g, _ in busy)
    certainty = Certainty.CONFIRMED if sure else Certainty.LIKELY if value_of(e.usage) else Certainty.POSSIBLE
    decides = () if sure else ("ray status: demands against what each node has free, and against all that it has",)
    return [cause("resources-busy", certainty, subject, words, *_held(e, all_of([b for g in groups for b in g.bundles])), decides=decides)]
