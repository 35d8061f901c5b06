"""The state of torch's dynamic rendezvous (etcd-v2, c10d), read without unpickling and without torch."""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Any

from runbooks.core.base import Frozen
from runbooks.rendezvous.parsers.safe_pickle import Record, Unreadable, read_pickle

_MODULE = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
ALLOWED = frozenset(
    {
        (_MODULE, "_RendezvousState"),
        (_MODULE, "_NodeDesc"),
        ("datetime", "datetime"),
        ("datetime", "timezone"),
        ("datetime", "timedelta"),
        ("builtins", "set"),
        ("__builtin__", "set"),
    }
)


class Member(Frozen):
    """One agent as the rendezvous names it: its host's own name, its pid there, a counter in the process."""

    addr: str
    pid: int
    local_id: int

    @property
    def label(self) -> str:
        """`host_pid_n`, as torch prints it."""
        return f"{self.addr}_{self.pid}_{self.local_id}"


class Seat(Frozen):
    """A participant and its rank in the round."""

    member: Member
    rank: int


class Beat(Frozen):
    """The last heartbeat of a member, by the member's own clock."""

    member: Member
    at: datetime


class DynamicState(Frozen):
    """One decoded `_RendezvousState`."""

    round: int
    complete: bool
    closed: bool
    deadline: datetime | None = None
    participants: tuple[Seat, ...] = ()
    wait_list: tuple[Member, ...] = ()
    redundancy_list: tuple[Member, ...] = ()
    beats: tuple[Beat, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """Everyone the state names, once, in a stable order."""
        named = [s.member for s in self.participants] + list(self.wait_list) + list(self.redundancy_list)
        named += [b.member for b in self.beats]
        return tuple(sorted(set(named), key=lambda m: m.label))


def decode_state(text: str) -> DynamicState:
    """`text` is what etcd or the TCP store holds: base64 of a pickle. Raises Unreadable."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as e:
        raise Unreadable(f"not base64: {e}") from e
    return _state(_record(read_pickle(raw, ALLOWED), "_RendezvousState"))


def _record(value: Any, name: str) -> dict[str, Any]:
    if not (isinstance(value, Record) and value.name == name and isinstance(value.state, dict)):
        raise Unreadable(f"expected {name}, found {value!r}"[:200])
    if not all(isinstance(k, str) for k in value.state):
        raise Unreadable(f"{name} with odd field names")
    return value.state


def _state(fields: dict[str, Any]) -> DynamicState:
    try:
        return DynamicState(
            round=_exact(fields["round"], int),
            complete=_exact(fields["complete"], bool),
            closed=_exact(fields["closed"], bool),
            deadline=None if fields.get("deadline") is None else _moment(fields["deadline"]),
            participants=_seats(_exact(fields["participants"], dict)),
            wait_list=_members(fields["wait_list"]),
            redundancy_list=_members(fields.get("redundancy_list", set())),
            beats=_beats(_exact(fields["last_heartbeats"], dict)),
        )
    except KeyError as e:
        raise Unreadable(f"the state has no field {e}") from e


def _exact(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise Unreadable(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _member(value: Any) -> Member:
    fields = _record(value, "_NodeDesc")
    try:
        return Member(
            addr=_exact(fields["addr" if "addr" in fields else "fqdn"], str),  # torch 1.9 to 1.13 name it fqdn
            pid=_exact(fields["pid"], int),
            local_id=_exact(fields["local_id"], int),
        )
    except KeyError as e:
        raise Unreadable(f"a node without {e}") from e


def _seats(seats: dict[Any, Any]) -> tuple[Seat, ...]:
    found = [Seat(member=_member(m), rank=_exact(r, int)) for m, r in seats.items()]
    return tuple(sorted(found, key=lambda s: (s.rank, s.member.label)))


def _members(value: Any) -> tuple[Member, ...]:
    if isinstance(value, Record) and value.name == "set" and len(value.args) == 1 and isinstance(value.args[0], list):
        value = value.args[0]
    if not isinstance(value, (set, list)):
        raise Unreadable("a list of nodes that is neither set nor list")
    return tuple(sorted((_member(v) for v in value), key=lambda m: m.label))


def _beats(beats: dict[Any, Any]) -> tuple[Beat, ...]:
    found = [Beat(member=_member(m), at=_moment(t)) for m, t in beats.items()]
    return tuple(sorted(found, key=lambda b: b.member.label))


def _moment(value: Any) -> datetime:
    """A pickled datetime: ten bytes, then possibly a timezone. Naive ones are UTC (torch used utcnow())."""
    if not (isinstance(value, Record) and value.name == "datetime" and value.args):
        raise Unreadable("expected a datetime")
    raw = value.args[0]
    if isinstance(raw, str):  # protocol 2 writes the bytes as latin-1 text
        raw = raw.encode("latin-1", errors="strict")
    if not isinstance(raw, bytes) or len(raw) != 10:
        raise Unreadable("a datetime that is not ten bytes")
    try:
        micros = (raw[7] << 16) | (raw[8] << 8) | raw[9]
        naive = datetime(raw[0] * 256 + raw[1], raw[2] & 0x7F, raw[3], raw[4], raw[5], raw[6], micros)  # noqa: DTZ001
    except ValueError as e:
        raise Unreadable(f"not a date: {e}") from e
    return (naive - _offset(value.args[1:])).replace(tzinfo=UTC)


def _offset(rest: tuple[Any, ...]) -> timedelta:
    if not rest:
        return timedelta(0)
    zone = rest[0]
    if not (isinstance(zone, Record) and zone.name == "timezone" and zone.args):
        raise Unreadable("expected a timezone")
    delta = zone.args[0]
    if not (isinstance(delta, Record) and delta.name == "timedelta" and len(delta.args) == 3):
        raise Unreadable("expected a time difference")
    days, seconds, micros = (_exact(v, int) for v in delta.args)
    if abs(days) > 2:
        raise Unreadable("a timezone of days")
    return timedelta(days=days, seconds=seconds, microseconds=micros)
