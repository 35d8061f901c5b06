"""Tries every system of the fleet file that this machine itself asks: leader, object stores, the orchestrator's, and those of `systems`."""

import socket
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlparse

import httpx

from runbooks.core.fleet import Fleet, Leader, System
from runbooks.core.nightly import SystemCheck
from runbooks.core.reading import Unknown, UnknownReason
from tasks.context import Context
from tasks.credentials import where
from tasks.gpu.leader import read_status, without_login
from tasks.systems.orchestrator import tries_of
from tasks.systems.s3 import try_reports, try_tiers
from tasks.systems.trying import SILENT, Later, Try, begin_all, check_of
from tasks.transport.open import open_host


def begin_here(fleet: Fleet, *, named_only: bool = False) -> Later:
    """Begins all of them, side by side. `named_only`: those of `systems` alone. Never raises."""
    tries = [Try(s.name, s.url, partial(_system, s), _reach(s.url, "its url")) for s in fleet.systems]
    return begin_all(tries if named_only else [*tries, *_others(fleet)])


def _others(fleet: Fleet) -> Iterator[Try]:
    if fleet.leader:
        yield Try("leader", without_login(fleet.leader.url), partial(_leader, fleet, fleet.leader), _reach(fleet.leader.url, "leader.url"))
    if fleet.checkpoints:
        yield from try_tiers(fleet.checkpoints)
    if fleet.reports.s3:
        yield try_reports(fleet.reports.s3)
    if fleet.orchestrator:
        yield from tries_of(fleet.orchestrator)


def _system(system: System) -> Iterator[SystemCheck]:
    """A connection by TCP, or any answer by HTTP at all. Raises OSError, httpx.HTTPError."""
    if system.url.startswith("tcp://"):
        url = urlparse(system.url)
        with socket.create_connection((url.hostname or "", url.port or 0), timeout=system.timeout_s):
            yield check_of(system.name, "ok", "accepts connections")
        return
    says, fix = _http(system)
    yield check_of(system.name, "FAULT" if fix else "ok", says, fix, silent=bool(fix))


def _http(system: System) -> tuple[str, str]:
    """What it answers, and where that is none, what to do."""
    try:
        with httpx.Client(timeout=system.timeout_s, trust_env=False, follow_redirects=False) as client, client.stream(
            "GET", system.url
        ) as answer:
            status = answer.status_code
    except httpx.HTTPError as e:
        return f"{type(e).__name__}: {e}", _reach(system.url, "its url")
    return f"HTTP {status}", "" if status < 500 else "look at its own log"


def _reach(url: str, field: str) -> str:
    return f"see that it runs and that this machine may reach {without_login(url)}, or correct {field}"


def _leader(fleet: Fleet, leader: Leader) -> Iterator[SystemCheck]:
    found = read_status(Context(fleet=fleet, target="leader", open_host=open_host), leader)
    if isinstance(found, Unknown):
        token = f"set {where(leader.token_env)} to its token" if leader.token_env else "give leader.token_env in the fleet file"
        fix = token if found.reason is UnknownReason.DENIED else _reach(leader.url, "leader.url")
        yield check_of("leader", "FAULT", found.why, fix, silent=found.reason in SILENT)
        return
    status = found.value
    if status.is_leader:
        yield check_of("leader", "ok", f"answers; it counts {len(status.peers)} peers")
    else:
        yield check_of("leader", "note", f"answers, but the leader is {status.leader_id or 'not known'}", "set leader.url to the leader's")
