"""Judges a container's death at three levels, host, container, application, in the order in which they are repaired."""

import shlex
from collections.abc import Set

from runbooks.container.alive import covers, judge_alive, too_young, unread
from runbooks.container.around import host_notes, judge_daemon, judge_fuse, judge_host
from runbooks.container.before import story
from runbooks.container.company import company
from runbooks.container.death import judge_death
from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.kept import judge_kept, kept_findings
from runbooks.container.left_over import left_over
from runbooks.container.loops import judge_loop
from runbooks.container.others import compose_findings, judge_supervisors, resting_findings
from runbooks.container.plans import plans_for
from runbooks.container.ray_level import blocked_by_head
from runbooks.container.warnings import besides, must_not
from runbooks.container.words import Limits as Limits
from runbooks.container.words import cause, clock, deaths
from runbooks.core.headline import of_cause
from runbooks.core.judgment import Judgment, remedy, state_of, tier
from runbooks.core.reading import Absent, Unknown, value_of
from runbooks.core.rules import book, by_the_rules
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from runbooks.triage.text import findings_of

EVENTS = ("host-rebooted", "daemon-upgraded", "daemon-restarted")
LOOPS = ("too-many-deaths", "restart-loop")
SLUG = "container-death"
RUNS = ("running", "paused")
UNASKED = "its restart policy asks for no start after code 0, and the fleet file names nothing that runs in it"


@by_the_rules("container-death")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The judgment. Pure."""
    e, c = evidence, value_of(evidence.container)
    if isinstance(e.container, Absent):
        return _missing(e, limits)
    causes, death = judge_daemon(e, limits), list[Cause]()
    if c is None and not causes:
        return _blind(e)
    causes += [x for x in judge_host(e, c, limits) if x.slug not in {y.slug for y in causes}]
    causes += judge_fuse(e)
    if c is not None:
        death = [] if c.status in RUNS else judge_death(e, c, limits)
        causes += judge_alive(e, c, limits) if c.status in RUNS else [*death, *blocked_by_head(e)]
        if not any(x.slug == "stopped-on-purpose" and x.certainty is not Certainty.POSSIBLE for x in causes):
            causes += judge_loop(e, c, limits)  # by a person: neither a loop nor one death too many
    if not [x for x in causes if not x.benign]:
        causes += judge_kept(e, limits)
    late = {x.slug for x in death[1:] if x.slug in (*EVENTS, "oom-child")}  # behind the stronger word that was read of this very end
    late |= set(LOOPS) if any(x.slug == "bad-command" for x in death) else set()  # what cannot be run ends at each start
    return _answer(e, c, _once(causes + judge_supervisors(e)), limits, late)


def _once(causes: list[Cause]) -> list[Cause]:
    """One cause per slug and subject, the surest; evidence joined."""
    kept: dict[str, Cause] = {}
    for x in causes:
        key = x.slug if x.slug in ("disk-full", "image-gone", "mount-gone", "devices-lost") else x.slug + x.subject
        old = kept.get(key)
        joined = tuple(dict.fromkeys((*(old.evidence if old else ()), *x.evidence)))
        best = x if old is None or old.certainty is not Certainty.CONFIRMED else old
        kept[key] = best.model_copy(update={"evidence": joined})
    return list(kept.values())


def _answer(e: Evidence, c: ContainerFacts | None, found: list[Cause], limits: Limits, late: Set[str] = frozenset()) -> Diagnosis:
    judgment = Judgment(SLUG, causes=found, late=late)
    causes = judgment.sort()
    wrong = [x for x in causes if tier(x) < 2]
    young = too_young(e, c, limits) if c and c.status == "running" and not wrong else ""
    gaps = unread(e) if c and c.status == "running" and not wrong else ()
    done = next((x for x in causes if x.slug == "main-exited-zero" and x.benign), None) if not wrong else None
    asks = f"whether {e.name} was to go on: {UNASKED}" if done else ""
    state = state_of(causes, blind=young or gaps or asks)
    return judgment.diagnosis(
        state=state,
        headline=_headline(e, causes, state, young),
        symptom=_symptom(e, c),
        must_not=must_not(e, c, causes),
        plans=plans_for(e, causes, limits) if state is State.UNHEALTHY else (),
        after=(*besides(e, c, causes), *([f"{done.subject}: {remedy(SLUG, done)}"] if done else [])),
        findings=(*_findings(e, limits, causes), *left_over(e, c, causes)),
        unknowns=tuple(filter(None, (young, asks))),
        by_hand=_by_hand(e, c),
        groups=company(e, c),
    )


def _headline(e: Evidence, causes: tuple[Cause, ...], state: State, young: str) -> str:
    told = [x for x in causes if x.slug != "second-supervisor" and x.certainty is not Certainty.RULED_OUT]
    names = list(dict.fromkeys(x.slug for x in told if state in (State.HEALTHY, State.CANNOT_TELL) or not x.benign))
    if names:
        first = next(x for x in causes if x.slug == names[0])
        hedge = " (possible)" if first.certainty is Certainty.POSSIBLE else ""
        return of_cause(book(SLUG), first, f"{e.name} on {e.node}", hedge=hedge, more=len(names) - 1)
    if state is State.HEALTHY:
        return f"{e.name} on {e.node} runs, {covers(e)}"
    return f"{e.name} on {e.node}: cannot tell: {young or 'not everything could be read'}"


def _symptom(e: Evidence, c: ContainerFacts | None) -> str:
    if c is None:
        return f"the engine on {e.node} does not answer"
    return f"{c.name} ({c.id[:12]}) is {c.status}, exit code {c.exit_code}, restarts {c.restart_count}"


def _missing(e: Evidence, limits: Limits) -> Diagnosis:
    """There is no such container: nothing to take a configuration from."""
    gone = [x for x in value_of(e.events) or () if x.name == e.name and x.action == "destroy"]
    if e.wanted is None and not gone:
        proof = e.container.proof if isinstance(e.container, Absent) else ""
        return Diagnosis(state=State.NOT_APPLICABLE, headline=f"no container {e.name} on {e.node}: {proof}")
    words = f"it was removed at {clock(gone[-1].at)}" if gone else "no record of its removal is left"
    found = (
        cause(
            "container-missing",
            Certainty.CONFIRMED,
            f"container {e.name}",
            words,
            "there is no such container",
        ),
    )
    return _answer(e, None, [*found, *judge_host(e, None, limits), *judge_supervisors(e)], limits)


def _blind(e: Evidence) -> Diagnosis:
    why = f": {e.container.detail[:200]}" if isinstance(e.container, Unknown) and e.container.detail else ""
    return Diagnosis(
        state=State.CANNOT_TELL,
        headline=f"{e.name} on {e.node}: cannot tell: the container was not read{why}",
        must_not=("recreate or restart anything: nothing is known about the container",),
        by_hand=_by_hand(e, None),
    )


def _findings(e: Evidence, limits: Limits, causes: tuple[Cause, ...]) -> tuple[Finding, ...]:
    found = [
        Finding(priority="MEDIUM", category="host", issue=n, action="look at the host") for n in host_notes(e, limits)
    ]
    found += _before(e)
    found += _policy(value_of(e.container))
    found += resting_findings(e) + compose_findings(e)
    found += _last_words(e)
    found += kept_findings(e, limits, causes)
    number = len(deaths(e, limits))
    if number > 1:
        found.append(
            Finding(priority="HIGH", category="container", issue=f"{number} deaths lately", action="find out why")
        )
    return tuple(found)


def _policy(c: ContainerFacts | None) -> list[Finding]:
    """The engine's own restart policy is a supervisor too."""
    if c is None or c.restart_policy in ("", "no"):
        return []
    most = f" ({c.restart_max} times at most; {c.restart_count} by now)" if c.restart_max else ""
    issue = (
        f"restart policy {c.restart_policy}{most}: the engine starts it again too, though not after a stop or kill through it"
    )
    action = "remember it when something else restarts it as well; a recreated one keeps it, the one set aside loses it"
    return [Finding(priority="LOW", category="container", issue=issue, action=action)]


def _before(e: Evidence) -> list[Finding]:
    """What the watch recorded of the minutes before the end (or before now)."""
    c, samples = value_of(e.container), value_of(e.before)
    if not samples:
        return []
    end = c.finished_at if c is not None and c.status not in RUNS else None
    action = "compare with the cause" if end else "compare with the symptom"
    return [Finding(priority="LOW", category="before", issue=line, action=action) for line in story(samples, end)]


def _last_words(e: Evidence) -> tuple[Finding, ...]:
    """What the last words of a dead container say, by the whole knowledge base."""
    c, lines = value_of(e.container), value_of(e.log)
    dead = c is not None and c.status not in RUNS
    return findings_of(lines, "its last words", SLUG) if dead and lines else ()


def _by_hand(e: Evidence, c: ContainerFacts | None) -> tuple[str, ...]:
    engine = shlex.join(e.wanted.engine) if e.wanted else "docker"
    ref = c.id[:12] if c else e.name
    return (f"{engine} inspect {ref}", f"{engine} logs --tail 50 {ref}", f"{engine} events --since 1h --until 0s",
            "dmesg -T | grep -iE 'oom-kill|Killed process'", "df -h; df -i; cat /proc/mounts | grep fuse")  # fmt: skip
