"""Whether a container that runs does its work: application, Ray node, devices, probe, and how long it has held."""

import re
from typing import Any

from runbooks.container_death.backoff import is_kept
from runbooks.container_death.evidence import ContainerFacts, Evidence, RayNode, RayView
from runbooks.container_death.keepalive import keep_alive
from runbooks.container_death.words import Limits, cause, clock, deaths, known, life_s, span
from runbooks.core.reading import Absent, Unknown
from runbooks.core.verdict import Cause, Certainty


def judge_alive(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """Faults of a running container. Empty: nothing wrong was seen."""
    subject = f"container {c.name}"
    if c.status == "paused":
        return [cause("paused", Certainty.CONFIRMED, subject, "the engine says: paused", innocent=True)]
    found: list[Cause] = []
    inside = known(e.inside)
    if inside and inside.devices_denied:
        words = "it cannot open its devices any more: " + ", ".join(inside.devices_denied)
        found.append(cause("devices-lost", Certainty.CONFIRMED, subject, words))
    if c.oom_killed or _kills_inside(e, c):
        words = _kills_inside(e, c) or "OOMKilled is true while it runs"
        found.append(cause("oom-child", Certainty.CONFIRMED, subject, words))
    return found + (_application(e, c, limits) or _probe(e, c, limits))


def _kills_inside(e: Evidence, c: ContainerFacts) -> str:
    kills = [k for k in known(e.ooms) or () if c.id[:12] in k.cgroup and c.started_at and k.at >= c.started_at]
    return f"kernel at {clock(kills[-1].at)}: {kills[-1].text}" if kills else ""


def _application(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    if e.wanted and e.wanted.ray_ip:
        return _ray(e, c, limits)
    inside = known(e.inside)
    if inside is None or not (e.wanted and e.wanted.match):
        return []
    if any(re.search(e.wanted.match, line) for line in inside.commands):
        return []
    runs = ", ".join(inside.commands[:5]) or "nothing"
    words = f"no process inside matches {e.wanted.match!r}; it runs: {runs}"
    return [cause("application-dead", Certainty.CONFIRMED, f"container {c.name}", words, _kept(c))]


def _kept(c: ContainerFacts) -> str:
    alive = keep_alive((*c.entrypoint, *c.command))
    return "its main process is only a keep-alive: the container stays up without its application" if alive else ""


def _ray(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    view, inside = known(e.ray), known(e.inside)
    raylet = None if inside is None else any(re.search(r"(^|/)raylet(\s|$)", x) for x in inside.commands)
    if isinstance(e.ray, (Unknown, Absent)) or view is None:
        detail = e.ray.detail if isinstance(e.ray, Unknown) else "the fleet file names no head"
        check = ("whether the head's GCS and dashboard run: look there first",)
        return [cause("head-gone", Certainty.LIKELY, "the Ray head", f"not read: {detail}", decides=check)]
    heads = [n for n in view.nodes if n.is_head and n.alive]
    if not heads:
        return [cause("head-gone", Certainty.CONFIRMED, "the Ray head", "the head lists no living head node")]
    return _worker(e, c, limits, view, heads[0], raylet)


def _worker(e: Evidence, c: ContainerFacts, limits: Limits, view: RayView, head: RayNode,
            raylet: bool | None) -> list[Cause]:  # fmt: skip
    subject, ip = f"Ray worker in {c.name}", e.wanted.ray_ip if e.wanted else ""
    mine = [n for n in view.nodes if n.ip == ip]
    up = (e.taken_at - c.started_at).total_seconds() if c.started_at else None
    joined = any(n.alive and not _leftover(n, c, up, raylet, limits) for n in mine)
    other = _versions(view, subject, "" if joined else f"the head lists no living node at {ip}: it did not join")
    if joined or other:
        return other
    last = max(mine, key=lambda n: n.started_at.timestamp() if n.started_at else 0.0, default=None)
    words = f"the head lists no living node at {ip}"
    said = f"the last one there, {last.node_id[:12]}: {last.message}" if last and last.message else ""
    if raylet is False:
        return [cause("raylet-gone", Certainty.CONFIRMED, subject, words, "no raylet runs inside", said, _kept(c))]
    if raylet is None:
        check = ("the processes inside the container",)
        return [cause("raylet-gone", Certainty.POSSIBLE, subject, words, said, decides=check)]
    if up is not None and up < limits.join_s:
        check = (f"another look after {limits.join_s:.0f} s",)
        return [
            cause(
                "application-stuck",
                Certainty.POSSIBLE,
                subject,
                words,
                f"up for {span(up)} only",
                decides=check,
            )
        ]
    if head.started_at and c.started_at and head.started_at > c.started_at:
        new = f"the head started at {clock(head.started_at)}, after this worker ({clock(c.started_at)})"
        return [cause("head-replaced", Certainty.CONFIRMED, subject, words, new, "a raylet runs inside")]
    return [cause("application-stuck", Certainty.CONFIRMED, subject, words, "a raylet runs inside", said)]


def _leftover(node: RayNode, c: ContainerFacts, up: float | None, raylet: bool | None, limits: Limits) -> bool:
    """True for a node of the life before, which the head goes on listing for a while after its container was killed.

    Its start is by the head's clock, the container's by the node's: with a raylet inside, a minute is given to the two.
    """
    if node.started_at is None or c.started_at is None or up is None or up > limits.listed_dead_s:
        return False
    early = (c.started_at - node.started_at).total_seconds()
    return early > (limits.clocks_apart_s if raylet else limits.clock_off_s)


def _versions(view: RayView, subject: str, more: str) -> list[Cause]:
    if not view.worker_version or not view.version or view.worker_version == view.version:
        return []
    words = f"head {view.version}, worker {view.worker_version}"
    return [cause("version-mismatch", Certainty.CONFIRMED, subject, words, more)]


def _probe(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    subject, probe = f"container {c.name}", known(e.probe)
    sick = c.health == "unhealthy" and c.health_streak >= limits.health_streak
    log = next((h.output for h in reversed(c.health_log) if h.exit), "")
    health = f"its health check failed {c.health_streak} times in a row: {log}" if sick else ""
    if probe is not None and probe.exit is None:
        words = f"the configured probe did not answer in {probe.seconds:.0f} s, twice"
        return [cause("application-stuck", Certainty.CONFIRMED, subject, words, health)]
    if probe is not None and probe.exit != 0:
        words = f"the configured probe ended with {probe.exit}, twice: {probe.last_line}"
        return [cause("application-dead", Certainty.CONFIRMED, subject, words, health, _kept(c))]
    if sick:
        check = ("the application's own log", "a configured probe")
        return [cause("application-stuck", Certainty.LIKELY, subject, health, decides=check)]
    return []


def too_young(e: Evidence, c: ContainerFacts, limits: Limits) -> str:
    """Why it cannot be called well yet: it died recently and has not run longer than its last lives; "" if it can."""
    before = deaths(e, limits)
    if not before or c.started_at is None:
        return ""
    up = (e.taken_at - c.started_at).total_seconds()
    need = steady_for(e, limits, len(before))
    if up >= need:
        return ""
    return f"it runs for {span(up)} and died {len(before)} times lately: it counts as well after {span(need)}"


def steady_for(e: Evidence, limits: Limits, number: int) -> float:
    """Seconds that it must run to count as well after `number` deaths: longer than each of its short lives, if several."""
    lives = [
        (s.finished_at - s.started_at).total_seconds()
        for s in known(e.siblings) or ()
        if is_kept(s.name, e.name) and s.finished_at and s.started_at and (e.taken_at - s.finished_at).total_seconds()
        <= limits.deaths_window_s
    ]  # fmt: skip
    c = known(e.container)
    last = life_s(c) if c is not None and c.status not in ("running", "paused") else None
    loop = [x for x in (*lives, last) if x is not None and x < limits.young_life_s]
    return max(limits.steady_s, *loop) if number > 1 and loop else limits.steady_s


def unread(e: Evidence) -> tuple[str, ...]:
    """What a healthy verdict would have needed and was not read."""
    needed: dict[str, Any] = {"daemon": e.daemon, "host": e.host, "mounts": e.fuse}
    if e.wanted and (e.wanted.match or e.wanted.ray_ip):
        needed["processes inside"] = e.inside
    return tuple(f"{n}: {r.reason}: {r.detail}" for n, r in needed.items() if isinstance(r, Unknown))
