"""Whether a run's process still lives: proven on this machine, by the movement of its beat on another one.

No clock of another machine is read: a beat that moves is alive, whatever time it says.
"""

from datetime import datetime, timedelta
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from flows.clock import server_now
from flows.engine.ownership import BEAT, BEAT_DEAD_S, SIGNED
from flows.engine.state_table import ABOUT_NOW, QUEUED_LIMIT, longest
from runbooks.core.base import Frozen
from tasks.this_machine import Owner, is_gone

AWAY = timedelta(seconds=60)  # longer between two rounds: the server, or this machine, was away


class Pulse(Frozen):
    """What the rounds saw of one run: its beat, and whether that moved."""

    state: UUID | None
    beat: str
    since: datetime  # unmoved
    moved: bool  # while the run was in this state


PULSES: dict[UUID, Pulse] = {}
_ROUNDS: list[datetime] = []


def after_an_absence(now: datetime) -> None:
    """Counts every silence from now on where nobody could beat, or nobody listened: a server that was down, a machine
    that slept, a clock that was set."""
    if _ROUNDS and abs(now - _ROUNDS.pop()) > AWAY:
        PULSES.clear()
    _ROUNDS.append(now)


def forget(now: datetime) -> None:
    """Drops the beats of runs that ended long ago: the reaper lives for months."""
    for run_id in [i for i, pulse in PULSES.items() if now - pulse.since > timedelta(days=1)]:
        del PULSES[run_id]


def owner_gone(run: FlowRun, now: datetime) -> bool | None:
    """True: the process that ran it is gone (proven here, or silent too long elsewhere). None: no owner is known yet."""
    owner = Owner.from_labels(dict(run.labels))
    if owner is None:
        return None
    pulse = _feel(run, now)
    if _signed_before(run) and not pulse.moved:
        return None
    gone = is_gone(owner)
    return gone if gone is not None else (now - pulse.since).total_seconds() > BEAT_DEAD_S


def _feel(run: FlowRun, now: datetime) -> Pulse:
    state, beat = run.state.id if run.state else None, str(run.labels.get(BEAT, ""))
    last = PULSES.get(run.id)
    if last is None or last.state != state:
        last = Pulse(state=state, beat=beat, since=now, moved=False)
    elif last.beat != beat:
        last = Pulse(state=state, beat=beat, since=now, moved=True)
    PULSES[run.id] = last
    return last


def _signed_before(run: FlowRun) -> bool:
    """The labels still name the process before: the run was resumed and its new process has not signed yet."""
    return run.state is not None and run.state.is_running() and run.labels.get(SIGNED) != str(run.state.id)


def since(run: FlowRun) -> datetime:
    """When it came into the state that it is in."""
    if run.state is None:
        return server_now()
    return run.state.timestamp


def asks(run: FlowRun) -> bool:
    """True if it waits for the answer of a person; a run that was paused by hand does not."""
    return bool(run.state and run.state.is_paused() and run.state.state_details.run_input_keyset)


def joinable(run: FlowRun, now: datetime) -> bool:
    """True if news of its target may be left to this run: somebody who lives is at work on it, and it is not ending.

    A question to a person counts, and so does a run that a worker is to take about now.
    """
    state = run.state
    if state is None or state.is_final() or state.is_cancelling():
        return False
    if state.is_scheduled():
        planned = state.state_details.scheduled_time or run.expected_start_time or now
        return now - QUEUED_LIMIT < planned < now + ABOUT_NOW
    if asks(run):
        return True
    limit = QUEUED_LIMIT if state.is_pending() else longest(run)
    return now - since(run) < limit and not owner_gone(run, now)
