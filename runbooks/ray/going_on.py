"""Processes of Ray that a signal stopped: which of them are continued, and why others are not."""

from collections.abc import Iterator, Sequence

from runbooks.core.halted import Halted, go_on, not_from_here, withheld
from runbooks.core.plan import Plan
from runbooks.core.reading import value_of
from runbooks.core.signals import continued
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.evidence import Evidence, NodeLogs

HEAD = ("head-stuck", "dashboard-down")
SETTLE_S = 15.0  # source: ray_config_def.h, five health checks 3 s apart (health_check_period_ms, Ray 2.0 to 2.60)
ANOTHER_HEAD = "do not continue it if another head was started in its place"
LATE = "if the head marks the node DEAD first, the continued raylet exits and ends its workers"
DEAD = "the head lists the node as DEAD; a continued raylet exits and ends its workers"
HELD = {"T": "it was seen stopped only once", "t": "a debugger holds it"}  # by the kernel's name of its state


def going_on(e: Evidence, causes: Sequence[Cause]) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """(a plan for each place where a confirmed cause is a stopped process, why some are not continued)"""
    sure = [c for c in causes if c.certainty is Certainty.CONFIRMED and not c.benign]
    made = [m for c in sure for m in (*_head(e, c), *_raylet(e, c))]
    return tuple(m for m in made if isinstance(m, Plan)), tuple(m for m in made if isinstance(m, str))


def _head(e: Evidence, c: Cause) -> Iterator[Plan | str]:
    """All of its session that is stopped there, at once: whoever stops a service by its group stops them together."""
    head = value_of(e.head)
    if c.slug not in HEAD or head is None:
        return
    served = head.gcs if c.slug == "head-stuck" else head.dashboard
    if served.halted is None:
        yield from [withheld(served.pid, HELD[served.state])] if served.state in HELD else []
        return
    here = [n for n in _read(e) if n.node == e.cluster]
    parts = [p for p in (head.gcs.halted, head.dashboard.halted, *(n.raylet_halted for n in here)) if p is not None]
    yield from _plan(e, e.cluster, parts, [*head.stopped, *(p for n in here for p in n.stopped)], c.slug, ANOTHER_HEAD)


def _raylet(e: Evidence, c: Cause) -> Iterator[Plan | str]:
    if c.slug != "raylet-stuck":
        return
    for node in (n for n in _read(e) if n.node == c.subject):
        alive = any(x.ip == node.ip and x.alive for x in value_of(e.nodes) or ())
        if not alive:
            yield withheld(node.raylet_halted.pid if node.raylet_halted else None, DEAD)
        elif node.raylet_halted is not None:
            yield from _plan(e, node.node, [node.raylet_halted], node.stopped, c.slug, LATE)


def _plan(e: Evidence, node: str, parts: Sequence[Halted], others: Sequence[Halted], slug: str, why: str) -> Iterator[Plan | str]:
    """`others`: what else of the session is stopped there; one of them that is not continued from here keeps back no daemon."""
    against = {p.pid: "the fleet file says hands off" if node in e.hands_off_nodes else not_from_here(p) for p in parts}
    yield from (withheld(pid, words) for pid, words in against.items() if words)
    if not any(against.values()):  # one that stays stopped could block the others
        ours = {p.pid for p in parts}
        more = {p.pid: p for p in others if p.pid not in ours}
        yield from (withheld(p.pid, words) for p in more.values() if (words := not_from_here(p)))
        all_ = [*parts, *(p for p in more.values() if not not_from_here(p))]
        yield go_on(continued(node, parts[0].boot_id, all_), slug, SETTLE_S, why)


def _read(e: Evidence) -> list[NodeLogs]:
    return [n for r in e.node_logs if (n := value_of(r)) is not None]
