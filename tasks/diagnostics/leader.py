"""Reads what the leader of the peer-to-peer cluster believes: GET <url>/status."""

import os
from datetime import datetime
from urllib.parse import urlsplit, urlunsplit

import httpx

from runbooks.core.fleet import Leader
from runbooks.core.reading import Absent, Known, Source, Unknown, Why
from runbooks.parsers.leader_status import LeaderStatus, parse_leader_status
from runbooks.zombie_gpu.evidence import LeaderView, Peer
from tasks.context import Context

CAP = 16 << 20  # bytes of /status that are read


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
    url = f"{leader.url.rstrip('/')}/status"
    at = Source(command=f"GET {without_login(url)}", host="leader", taken_at=context.now())
    try:
        answer = httpx.get(url, headers=auth(leader), timeout=leader.timeout_s)
        data = answer.json() if answer.status_code == 200 else None
    except httpx.TimeoutException as e:
        return Unknown(reason=Why.TIMED_OUT, detail=f"no answer in {leader.timeout_s:g} s: {e}", source=at)
    except httpx.HTTPError as e:
        return Unknown(reason=Why.UNREACHABLE, detail=context.redactor.text(str(e)), source=at)
    except ValueError as e:
        return Unknown(reason=Why.UNPARSABLE, detail=f"/status is not JSON: {e}", source=at)
    if answer.status_code != 200:
        why = Why.DENIED if answer.status_code in (401, 403) else Why.FAILED
        return Unknown(reason=why, detail=f"HTTP {answer.status_code}", source=at)
    parsed = parse_leader_status(data)
    return parsed.model_copy(update={"source": at})


def auth(leader: Leader) -> dict[str, str]:
    """The bearer token's header, where the fleet file names a variable that has one."""
    token = os.environ.get(leader.token_env or "", "")
    return {"Authorization": f"Bearer {token}"} if token else {}


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
            Peer(node=p.node, jobs=p.jobs, gpu_percent=p.gpu_percent, last_seen_s=_age(p.age_s, p.heartbeat_s, clock))
            for p in status.peers
        ),
    )


def _age(age_s: float | None, heartbeat_s: float | None, clock: float) -> float | None:
    if age_s is not None or heartbeat_s is None:
        return age_s
    return max(0.0, clock - heartbeat_s)
