"""Reads how the engine itself is: open runs, locks, questions, the reaper, the pool, the switches. Changes nothing."""

from datetime import datetime

from prefect.client.schemas.objects import FlowRun

from flows import store
from flows.clock import server_now
from flows.engine.approval import EXPIRES
from flows.engine.guards import FREEZE
from flows.engine.in_progress import unsettled
from flows.engine.state_table import OPEN
from flows.engine.steps import unfinished
from flows.pool import live_workers, pool_is_paused
from flows.reaper_lead import Reaper, leader, reapers
from runbooks.core.base import Frozen
from tasks.this_machine import Owner


class OpenRuns(Frozen):
    """Runs of one state; ages in seconds since that state began."""

    state: str
    count: int
    oldest_s: float
    oldest: str  # name of the oldest run
    oldest_run: str  # its id


class HeldLock(Frozen):
    """One owner that is being worked on."""

    owner: str
    act_run: str
    holder: str  # the process that locked it: host and pid
    age_s: float
    why: str = ""  # set if its run has ended, and a step of it may still be at work


class WaitingQuestion(Frozen):
    """One run that waits for a person."""

    run: str
    name: str
    headline: str
    age_s: float
    since: str  # ISO time
    expires: str


class Health(Frozen):
    """The whole of it."""

    open_runs: tuple[OpenRuns, ...]
    locks: tuple[HeldLock, ...]
    waiting: tuple[WaitingQuestion, ...]
    reaper: Reaper | None  # the one that leads, if one lives
    reaper_age_s: float | None  # since the last round of any reaper; None: none was ever seen
    reapers: int  # that live
    pool_paused: bool | None  # None: there is no pool
    workers: int | None  # that live; None: there is no pool
    frozen: bool
    breakers: tuple[str, ...]


def read_health(pool: str) -> Health:
    """Asks the server; `pool` is the name of the workers' pool. Raises what the API raises."""
    now = server_now()
    known = reapers()
    last = max((r.at for r in known), default=None)
    runs = store.find_runs([store.RUNBOOK_TAG], OPEN)
    return Health(
        open_runs=_open_runs(runs, now),
        locks=_locks(now),
        waiting=tuple(_question(r, now) for r in runs if r.state and r.state.is_paused()),
        reaper=leader(known, now),
        reaper_age_s=max(0.0, (now - last).total_seconds()) if last else None,
        reapers=sum(r.alive(now) for r in known),
        pool_paused=pool_is_paused(pool),
        workers=live_workers(pool, now),
        frozen=bool(store.get_variable(FREEZE)),
        breakers=tuple(sorted(store.variables("gpu_runbooks_breaker_"))),
    )


def _age_s(run: FlowRun, now: datetime) -> float:
    since = run.state.timestamp if run.state else run.created or now
    planned = run.state.state_details.scheduled_time if run.state and run.state.is_scheduled() else None
    return round(max(0.0, (now - (planned or since)).total_seconds()), 1)


def _open_runs(runs: list[FlowRun], now: datetime) -> tuple[OpenRuns, ...]:
    found = []
    for state in OPEN:
        of_state = sorted((r for r in runs if r.state_type is state), key=lambda r: -_age_s(r, now))
        if of_state:
            first = of_state[0]
            facts = {"oldest_s": _age_s(first, now), "oldest": first.name, "oldest_run": str(first.id)}
            found.append(OpenRuns(state=state.value.lower(), count=len(of_state), **facts))
    return tuple(found)


def _locks(now: datetime) -> tuple[HeldLock, ...]:
    held = [(r, "" if r.state_type in OPEN else unfinished(r, now)) for r in unsettled(now)]
    return tuple(
        HeldLock(
            owner=str(r.parameters.get("owner")),
            act_run=str(r.id),
            holder=owner.shown if (owner := Owner.from_labels(dict(r.labels))) else "unknown",
            age_s=round(max(0.0, (now - (r.start_time or r.created or now)).total_seconds()), 1),
            why=why,
        )
        for r, why in held
        if why or r.state_type in OPEN
    )


def _question(run: FlowRun, now: datetime) -> WaitingQuestion:
    since = run.state.timestamp if run.state else None
    facts = {"headline": str(run.labels.get("headline", "")), "expires": str(run.labels.get(EXPIRES, ""))}
    facts |= {"since": since.isoformat() if since else ""}
    return WaitingQuestion(run=str(run.id), name=run.name, age_s=_age_s(run, now), **facts)
