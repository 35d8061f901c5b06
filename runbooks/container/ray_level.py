"""A Ray worker in a container, judged with its head: the head first, then versions, then the worker's own node."""

from collections.abc import Iterator

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.keepalive import keep_alive
from runbooks.container.words import Limits, cause, clock, span
from runbooks.core.ray_view import RayNode, RayView, Versions, differ, head_fault
from runbooks.core.reading import Unknown, value_of
from runbooks.core.verdict import Cause, Certainty


def kept_up(c: ContainerFacts) -> str:
    """In words, where its main process is only a keep-alive."""
    alive = keep_alive((*c.entrypoint, *c.command))
    return "its main process is only a keep-alive: the container stays up without its application" if alive else ""


def judge_head(e: Evidence, *more: str) -> list[Cause]:
    """The head, when its list of nodes did not come."""
    fault = head_fault(e.ray_head, e.ray)
    words = (*fault.evidence, *more) if fault else ()
    return [cause(fault.slug, fault.certainty, "the Ray head", *words, decides=fault.decides)] if fault else []


def blocked_by_head(e: Evidence) -> list[Cause]:
    """For a container that is dead: a head that is proven gone or stuck. What is restored could not join it."""
    ray = e.wanted is not None and bool(e.wanted.ray_ip)
    found = judge_head(e, "a worker that is restored now could not join") if ray else []
    return [c for c in found if c.slug in ("head-gone", "head-stuck") and c.certainty is Certainty.CONFIRMED]


def judge_ray(e: Evidence, c: ContainerFacts, limits: Limits) -> list[Cause]:
    """The Ray worker of a container that runs."""
    view, inside = value_of(e.ray), value_of(e.inside)
    raylet = None if inside is None else any(_is_raylet(x) for x in inside.commands)
    if view is None:
        without = "no raylet runs inside: look again when the head is well" if raylet is False else ""
        return judge_head(e, without) or _unread(e)
    heads = [n for n in view.nodes if n.is_head and n.alive]
    if not heads:
        return [cause("head-gone", Certainty.CONFIRMED, "the Ray head", "the head lists no living head node")]
    return _worker(e, c, limits, view, heads[0], raylet)


def _is_raylet(command: str) -> bool:
    return any(word.rsplit("/", 1)[-1] == "raylet" for word in command.split())


def _unread(e: Evidence) -> list[Cause]:
    detail = e.ray.detail if isinstance(e.ray, Unknown) else "the fleet file names no head"
    check = ("the head's list of nodes, by hand on the head: ray list nodes",)
    return [cause("head-unreachable", Certainty.POSSIBLE, "the Ray head", f"not read: {detail}", decides=check)]


def _worker(e: Evidence, c: ContainerFacts, limits: Limits, view: RayView, head: RayNode,
            raylet: bool | None) -> list[Cause]:  # fmt: skip
    subject, ip = f"Ray worker in {c.name}", e.wanted.ray_ip if e.wanted else ""
    mine = [n for n in view.nodes if n.ip == ip]
    up = (e.taken_at - c.started_at).total_seconds() if c.started_at else None
    joined = any(n.alive and not _leftover(n, c, up, raylet, limits) for n in mine)
    other = _versions(e, view, subject, joined, "" if joined else f"the head lists no living node at {ip}: it did not join")
    if joined or other:
        return other
    open_ = _not_told(e, view, head, c)
    sure = Certainty.LIKELY if open_ else Certainty.CONFIRMED
    last = max(mine, key=lambda n: n.started_at.timestamp() if n.started_at else 0.0, default=None)
    words = f"the head lists no living node at {ip}"
    said = f"the last one there, {last.node_id[:12]}: {last.message}" if last and last.message else ""
    if raylet is False:
        versions = tuple(_versions_not_told(e, view))
        gone = Certainty.LIKELY if versions else Certainty.CONFIRMED
        return [cause("raylet-gone", gone, subject, words, "no raylet runs inside", said, kept_up(c), decides=versions)]
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
        return [cause("head-replaced", sure, subject, words, new, "a raylet runs inside", decides=open_)]
    return [cause("application-stuck", sure, subject, words, "a raylet runs inside", said, decides=open_)]


def _not_told(e: Evidence, view: RayView, head: RayNode, c: ContainerFacts) -> tuple[str, ...]:
    """What of a worker with a raylet was not said and could explain that it is not listed."""
    late = () if head.started_at and c.started_at else ("when head and container were started: the head may be the younger one",)
    return (*late, *_versions_not_told(e, view))


def _versions_not_told(e: Evidence, view: RayView) -> Iterator[str]:
    head = value_of(e.ray_head)
    sides = {
        "the head's Ray": view.version, "the Ray inside": view.worker_version,
        "the head's Python": head.versions.python if head else "", "the Python inside": view.worker_python,
    }  # fmt: skip
    if lost := [what for what, version in sides.items() if not version]:
        yield f"the version of {', '.join(lost)}: Ray refuses a worker of another one"


def _leftover(node: RayNode, c: ContainerFacts, up: float | None, raylet: bool | None, limits: Limits) -> bool:
    """True for a node of the life before, which the head goes on listing for a while after its container was killed.

    Its start is by the head's clock, the container's by the node's: with a raylet inside, a minute is given to the two.
    """
    if node.started_at is None or c.started_at is None or up is None or up > limits.listed_dead_s:
        return False
    early = (c.started_at - node.started_at).total_seconds()
    return early > (limits.clocks_apart_s if raylet else limits.clock_off_s)


def _versions(e: Evidence, view: RayView, subject: str, joined: bool, more: str) -> list[Cause]:
    head = value_of(e.ray_head)
    there = Versions(ray=view.version, python=head.versions.python if head else "")
    words = differ(there, Versions(ray=view.worker_version, python=view.worker_python), joined)
    return [cause("version-mismatch", Certainty.CONFIRMED, subject, words, more)] if words else []
