"""Reads what the leader of the peer-to-peer cluster believes: GET <url>/status."""

from datetime import datetime
from urllib.parse import urlsplit, urlunsplit

from runbooks.core.fleet import Leader
from runbooks.core.reading import Absent, Known, Source, Unknown
from runbooks.gpu.leader import LeaderPeer, LeaderView
from runbooks.gpu.parsers.leader_status import LeaderStatus, parse_leader_status
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.transport.base import TransportError
from tasks.transport.http import HttpReader

CAP = 16 << 20  # bytes of /status that are read


@diagnostic("leader's view · {context.target}")
def read_leader(context: Context) -> Known[LeaderView] | Absent | Unknown:
    """The leader's view of every peer. Absent: the fleet file names no leader."""
    leader = context.fleet.leader
    if leader is None:
        return Absent(proof="the fleet file names no leader")
    found = read_status(context, leader)
    if isinstance(found, Unknown):
        return found
    return Known[LeaderView](value=_view(found.value, leader, context.now()), source=found.source)


def read_status(context: Context, leader: Leader) -> Known[LeaderStatus] | Unknown:
    """One GET of /status, parsed."""
    base = leader.url.rstrip("/")
    at = Source(command=f"GET {without_login(base)}/status", host="leader", taken_at=context.now())
    try:
        http = HttpReader(base, context.redactor, token_env=leader.token_env, timeout_s=leader.timeout_s, limit=CAP)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=at)
    try:
        return parse_leader_status(http.get("/status").body).model_copy(update={"source": at})
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=at)
    finally:
        http.close()


def without_login(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    host = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _view(status: LeaderStatus, leader: Leader, now: datetime) -> LeaderView:
    clock = status.clock_s if status.clock_s is not None else now.timestamp()
    return LeaderView(
        node_id=status.node_id,
        is_leader=status.is_leader,
        leader_id=status.leader_id,
        url=without_login(leader.url.rstrip("/")),
        zombies=status.zombies,
        peers=tuple(
            LeaderPeer(node=p.node, jobs=p.jobs, gpu_percent=p.gpu_percent, last_seen_s=_age(p.age_s, p.heartbeat_s, clock))
            for p in status.peers
        ),
    )


def _age(age_s: float | None, heartbeat_s: float | None, clock: float) -> float | None:
    if age_s is not None or heartbeat_s is None:
        return age_s
    return max(0.0, clock - heartbeat_s)
