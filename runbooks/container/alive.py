"""Whether a container that runs does its work: application, Ray node, devices, probe, and how long it has held."""

import re
from typing import Any

from runbooks.container.backoff import is_kept
from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.keepalive import only_keeps_up
from runbooks.container.memory_kills import nameless_kills
from runbooks.container.ray_level import judge_ray, kept_up
from runbooks.container.words import Limits, cause, clock, deaths, life_s, span
from runbooks.core.host_facts import KernelOom
from runbooks.core.reading import Known, Unknown, value_of
from runbooks.core.verdict import Cause, Certainty

_NO_PROGRAM = re.compile(r"(?:^|/)\w*sh: (?:.*: )?\S+: (?:command )?not found$|executable file not found")  # as shells and engines say it
IN_IT = "whether the process that the kernel killed was one of this container, in this life of it"
SHM_PARTS = 100  # less than one of these free: the next writer of a batch fails


def judge_alive(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Faults of a running container. Empty: nothing wrong was seen."""
    subject = f"container {c.name}"
    if c.status == "paused":
        return [cause("paused", Certainty.CONFIRMED, subject, "the engine says: paused", benign=True)]
    found: list[Cause] = []
    inside = value_of(e.inside)
    if inside and inside.devices_denied:
        words = "it cannot open its devices any more: " + ", ".join(inside.devices_denied)
        found.append(cause("devices-lost", Certainty.CONFIRMED, subject, words))
    if c.oom_killed or _kills_inside(e, c):
        words = _kills_inside(e, c) or "OOMKilled is true while it runs"
        found.append(cause("oom-child", Certainty.CONFIRMED, subject, words))
    elif may := _may_be_inside(e, c):
        found.append(cause("oom-child", Certainty.POSSIBLE, subject, f"kernel at {clock(may.at)}: {may.text}", decides=(IN_IT,)))
    found += _shm_full(e, c)
    return found + (_application(e, c, limits) or _probe(e, c, limits) or _only_a_keep_alive(e, c))


def _shm_full(e: Evidence, c: ContainerFacts) -> list[Cause]:
    inside = value_of(e.inside)
    shm = inside.shm if inside else None
    if shm is None or not shm.size_bytes or shm.free_bytes * SHM_PARTS > shm.size_bytes:
        return []
    words = f"its /dev/shm has {shm.free_bytes >> 10} KiB free of {shm.size_bytes >> 20} MiB"
    check = ("whether a write to it fails: the application's log, who holds the files in it",)
    return [cause("shm-full", Certainty.LIKELY, f"container {c.name}", words, decides=check)]


def _only_a_keep_alive(e: Evidence, c: ContainerFacts) -> list[Cause]:
    """Nothing but the process that keeps it up, and nobody said what should run: that it does its work cannot be told."""
    inside = value_of(e.inside)
    configured = isinstance(e.probe, Known) or bool(e.wanted and (e.wanted.match or e.wanted.ray_ip))
    if configured or inside is None or not inside.commands or not all(map(only_keeps_up, inside.commands)):
        return []
    runs = f"nothing runs inside but {', '.join(inside.commands[:3])}"
    check = ("what should run in it: give the fleet file its `match`, `probe` or `ray_ip`",)
    return [cause("application-dead", Certainty.POSSIBLE, f"container {c.name}", runs, kept_up(c), decides=check)]


def _kills_inside(e: Evidence, c: ContainerFacts) -> str:
    kills = [k for k in value_of(e.ooms) or () if c.id[:12] in k.cgroup and c.started_at and k.at >= c.started_at]
    return f"kernel at {clock(kills[-1].at)}: {kills[-1].text}" if kills else ""


def _may_be_inside(e: Evidence, c: ContainerFacts) -> KernelOom | None:
    """The last kill that may have been in it in this life: its line names no cgroup, or when it was started is not said."""
    own = [k for k in value_of(e.ooms) or () if c.started_at is None and c.id[:12] in k.cgroup]
    return max((*own, *nameless_kills(e, c.started_at)), key=lambda k: k.at, default=None)


def _application(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    if e.wanted and e.wanted.ray_ip:
        return judge_ray(e, c, limits)
    inside = value_of(e.inside)
    if inside is None or not (e.wanted and e.wanted.match):
        return []
    if any(re.search(e.wanted.match, line) for line in inside.commands):
        return []
    runs = ", ".join(inside.commands[:5]) or "nothing"
    words = f"no process inside matches {e.wanted.match!r}; it runs: {runs}"
    return [cause("application-dead", Certainty.CONFIRMED, f"container {c.name}", words, kept_up(c))]


def _probe(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    subject, probe = f"container {c.name}", value_of(e.probe)
    unhealthy = c.health == "unhealthy" and c.health_streak >= limits.health_streak and not _check_cannot_run(c)
    log = next((h.output for h in reversed(c.health_log) if h.exit), "")
    health = f"its health check failed {c.health_streak} times in a row: {log}" if unhealthy else ""
    if probe is not None and probe.exit is None:
        words = f"the configured probe did not answer in {probe.seconds:.0f} s, twice"
        return [cause("application-stuck", Certainty.CONFIRMED, subject, words, health)]
    if probe is not None and probe.exit != 0:
        words = f"the configured probe ended with {probe.exit}, twice: {probe.last_line}"
        return [cause("application-dead", Certainty.CONFIRMED, subject, words, health, kept_up(c))]
    check = ("the application's own log", "a configured probe")
    if unhealthy and _never_passed(e, c):
        asks = ("whether the check asks for what runs in this container", *check)
        return [cause("application-stuck", Certainty.POSSIBLE, subject, health, "it has not passed once since the start", decides=asks)]
    if unhealthy:
        return [cause("application-stuck", Certainty.LIKELY, subject, health, decides=check)]
    return []


def _never_passed(e: Evidence, c: ContainerFacts) -> bool:
    """It has failed as often as it ran in this life: as much says that it asks for something else as that nothing answers."""
    at = [h.ended_at for h in c.health_log if h.ended_at]
    if len(at) < 2 or c.started_at is None:
        return False
    each_s = (at[-1] - at[0]).total_seconds() / (len(at) - 1)
    return (c.health_streak + 2) * each_s >= (e.taken_at - c.started_at).total_seconds()


def _check_cannot_run(c: ContainerFacts) -> bool:
    """Its health check failed each time because its own program is not in the container: that says nothing of the application."""
    failed = [h for h in c.health_log if h.exit]
    return bool(failed) and all(h.exit in (126, 127) or _NO_PROGRAM.search(h.output) for h in failed)


def covers(e: Evidence) -> str:
    """What was looked at of the work in a container that is well."""
    looked = [] if not e.wanted else ["its process runs"] if e.wanted.match else ["its Ray node is alive"] if e.wanted.ray_ip else []
    looked += ["its probe answers"] if isinstance(e.probe, Known) else []
    if looked:
        return " and ".join(looked)
    inside = value_of(e.inside)
    return f"{len(inside.commands) if inside else 0} processes inside; what it should do is not configured, so that was not looked at"


def too_young(e: Evidence, c: ContainerFacts, limits: Limits) -> str:
    """Why it cannot be called well yet: it died recently and has not run longer than its last lives; "" if it can."""
    before = deaths(e, limits)
    if not before:
        return ""
    if c.started_at is None:
        return f"it died {len(before)} times lately, and since when it runs is not said"
    up = (e.taken_at - c.started_at).total_seconds()
    need = steady_for(e, limits, len(before))
    if up >= need:
        return ""
    return f"it runs for {span(up)} and died {len(before)} times lately: it counts as well after {span(need)}"


def steady_for(e: Evidence, limits: Limits, number: int) -> float:
    """Seconds that it must run to count as well after `number` deaths: longer than each of its short lives, if several."""
    lives = [
        (s.finished_at - s.started_at).total_seconds()
        for s in value_of(e.siblings) or ()
        if is_kept(s.name, e.name) and s.finished_at and s.started_at and (e.taken_at - s.finished_at).total_seconds()
        <= limits.deaths_window_s
    ]  # fmt: skip
    c = value_of(e.container)
    last = life_s(c) if c is not None and c.status not in ("running", "paused") else None
    loop = [x for x in (*lives, last) if x is not None and x < limits.young_life_s]
    return max(limits.steady_s, *loop) if number > 1 and loop else limits.steady_s


def unread(e: Evidence) -> tuple[str, ...]:
    """What a healthy verdict would have needed and was not read."""
    needed: dict[str, Any] = {"daemon": e.daemon, "host": e.host, "mounts": e.fuse}
    if e.wanted and (e.wanted.match or e.wanted.ray_ip):
        needed["processes inside"] = e.inside
    return tuple(f"{n}: {r.why}" for n, r in needed.items() if isinstance(r, Unknown))
