"""Whether a run's process still lives: proven on this machine, by the movement of its beat on another one."""

from datetime import datetime, timedelta
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from flows.clock import server_now
from flows.ownership import BEAT, BEAT_DEAD_S
from tasks.this_machine import Owner, is_gone

SEEN: dict[UUID, tuple[str, datetime]] = {}
"""Beats of runs on other machines: judged by whether they move between two rounds, by this clock alone."""


def forget(now: datetime) -> None:
    """Drops the beats of runs that ended long ago: the reaper lives for months."""
    for run_id in [i for i, (_, moved) in SEEN.items() if now - moved > timedelta(days=1)]:
        del SEEN[run_id]


def owner_gone(run: FlowRun, now: datetime) -> bool | None:
    """True: the process that ran it is gone (proven here, or silent too long elsewhere). None: no owner is known yet."""
    owner = Owner.from_labels(dict(run.labels))
    beat = str(run.labels.get(BEAT, ""))
    if owner is None or older_than_its_state(run, beat):
        return None
    gone = is_gone(owner)
    if gone is not None:
        return gone
    last, seen = SEEN.get(run.id, ("", now))
    if last != beat:
        seen = now
    SEEN[run.id] = (beat, seen)
    return (now - seen).total_seconds() > BEAT_DEAD_S


def older_than_its_state(run: FlowRun, beat: str) -> bool:
    """The labels still name the process before: the run was resumed and its new process has not signed yet."""
    running = run.state is not None and run.state.is_running()
    return bool(beat) and running and datetime.fromisoformat(beat) < since(run)


def since(run: FlowRun) -> datetime:
    """When it came into the state that it is in."""
    if run.state is None:
        return server_now()
    return run.state.timestamp
