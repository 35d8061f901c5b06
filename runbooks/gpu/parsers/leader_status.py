"""The leader's /status JSON: what it believes of its peers. More fields than these are fine, wrong types are not."""

from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.reading import Known, Unknown, UnknownReason


class PeerStatus(Frozen):
    """One peer: jobs it is said to run, its GPU per cent, when it was last heard of (Unix time of the leader)."""

    node: str
    jobs: int
    gpu_percent: float | None = None
    heartbeat_s: float | None = None
    age_s: float | None = None  # where the leader gives the age itself


class LeaderStatus(Frozen):
    """One /status answer."""

    node_id: str
    leader_id: str = ""
    is_leader: bool
    clock_s: float | None = None  # the leader's own clock, where it gives it
    peers: tuple[PeerStatus, ...]
    zombies: tuple[str, ...] = ()


class _Wrong(Exception):
    """A field of the wrong type."""


def parse_leader_status(data: Any) -> Known[LeaderStatus] | Unknown:
    """The document, or Unknown that names the field which is wrong and what stands in it."""
    try:
        if not isinstance(data, dict):
            raise _Wrong(f"expected an object, found {type(data).__name__}")
        return Known[LeaderStatus](value=_status(data))
    except _Wrong as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"/status: {e}")


def _status(data: dict[str, Any]) -> LeaderStatus:
    node_id, leader_id = _text(data, "node_id"), _text(data, "leader_id")
    peers = _map(data, "peers")
    if peers is None:
        raise _Wrong("no `peers`")
    own = _map(data, "self")
    everyone = {**({node_id: own} if own and node_id else {}), **peers}
    found = (_peer(name, peer) for name, peer in everyone.items())
    return LeaderStatus(
        node_id=node_id,
        leader_id=leader_id,
        is_leader=_leads(data, node_id, leader_id),
        clock_s=_number(data, "timestamp"),
        peers=tuple(p for p in found if p is not None),
        zombies=_zombies(_map(data, "idle_detection_stats") or {}),
    )


def _leads(data: dict[str, Any], node_id: str, leader_id: str) -> bool:
    """Its own word, else its role, else whether the leader's id is its own."""
    said = data.get("is_leader")
    if said is not None:
        if not isinstance(said, bool):
            raise _Wrong(f"is_leader is {said!r}, not true or false")
        return said
    role = _text(data, "role")
    return role == "leader" if role else bool(node_id) and node_id == leader_id


def _peer(name: str, peer: Any) -> PeerStatus | None:
    """A peer, or None where it says nothing of jobs (no claim is not the claim 0)."""
    if not isinstance(peer, dict):
        raise _Wrong(f"peers.{name} is not an object")
    counts = [_count(peer, f, name) for f in ("selfplay_jobs", "training_jobs")]
    if all(c is None for c in counts):
        return None
    heartbeat = _number(peer, "last_heartbeat")
    age = _number(peer, "last_seen_s")
    return PeerStatus(
        node=name,
        jobs=sum(c or 0 for c in counts),
        gpu_percent=_number(peer, "gpu_percent"),
        heartbeat_s=heartbeat,
        age_s=age,
    )


def _count(peer: dict[str, Any], field: str, name: str) -> int | None:
    value = peer.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _Wrong(f"peers.{name}.{field} is {value!r}, not a count")
    return value


def _number(data: dict[str, Any], field: str) -> float | None:
    value = data.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Wrong(f"{field} is {value!r}, not a number")
    return float(value)


def _text(data: dict[str, Any], field: str) -> str:
    value = data.get(field)
    if value is not None and not isinstance(value, str):
        raise _Wrong(f"{field} is {value!r}, not text")
    return value or ""


def _map(data: dict[str, Any], field: str) -> dict[str, Any] | None:
    value = data.get(field)
    if value is not None and not isinstance(value, dict):
        raise _Wrong(f"{field} is not an object")
    return value


def _zombies(stats: dict[str, Any]) -> tuple[str, ...]:
    """Names, given as a list or as the keys of an object."""
    value = stats.get("zombie_nodes")
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(map(str, value))
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise _Wrong("idle_detection_stats.zombie_nodes is not a list of names")
    return tuple(value)
