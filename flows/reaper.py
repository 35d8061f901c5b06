"""Ends what nobody runs any more, looks at its targets again, closes approvals that ran out. Repeats no action."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from flows import reaper_runs, store
from flows.clock import server_now
from flows.draining import lift_lost
from flows.engine.liveness import after_an_absence, forget, owner_gone
from flows.engine.node_over import ASKED, ask_machines
from flows.engine.state_table import LOOK_BACK, TAKEN_LIMIT, ReaperDuty, RunKind, row_of, states_for
from flows.engine.states import cancel, change
from flows.engine.steps import began, deliver, left_behind, revoke, unfinished
from flows.notify.retry import retry_pending
from flows.sweep.board import renew_boards
from tasks.this_machine import Owner, is_gone

log = logging.getLogger("flows.reaper")
KEPT: dict[UUID, datetime] = {}
"""Acts without a process whose step may still be at work, since when: said once."""
Handler = Callable[[FlowRun, datetime], str]


def sweep(now: datetime | None = None) -> list[str]:
    """One round. Returns a line for each thing done; one run's failure never stops the others."""
    if now is None:
        now = server_now()
        after_an_absence(now)
    done: list[str] = []
    for run in _runs(now):
        try:
            line = HANDLERS[row_of(run).does](run, now)
        except Exception as e:
            line = f"{run.name}: {type(e).__name__}: {e}"
        if line:
            log.info("%s", line)
            done.append(line)
    forget(now)
    return done + _lift_lost(now) + retry_pending(now) + _renew_boards(now)


def _renew_boards(now: datetime) -> list[str]:
    try:
        return renew_boards(now)
    except Exception as e:
        return [f"the fleets' pages: {type(e).__name__}: {e}"]


def _lift_lost(now: datetime) -> list[str]:
    try:
        return lift_lost(now)
    except Exception as e:
        return [f"marks of workers that drain: {type(e).__name__}: {e}"]


def _runs(now: datetime) -> Iterator[FlowRun]:
    """Every run with which the state table has something to do; actions first, those that have ended last."""
    own = (RunKind.RUNBOOK, RunKind.SWEEP)
    going = tuple(d for d in ReaperDuty if d not in (ReaperDuty.ACT, ReaperDuty.SCHEDULED, ReaperDuty.BROKEN_OFF, ReaperDuty.NOTHING))
    yield from store.find_runs([store.ACT_TAG], states_for((RunKind.ACTION,), (ReaperDuty.ACT,)))
    yield from store.find_runs([store.RUNBOOK_TAG], states_for(own, going))
    overdue = states_for(own, (ReaperDuty.SCHEDULED,))  # without those that a schedule has planned for the next days
    yield from store.find_runs([store.RUNBOOK_TAG], overdue, before=now - TAKEN_LIMIT)
    yield from store.find_runs([store.RUNBOOK_TAG], states_for(own, (ReaperDuty.BROKEN_OFF,)), ended_since=now - LOOK_BACK)


def _action_run(run: FlowRun, now: datetime) -> str:
    """An action run whose process is gone is ended. Its steps are never repeated; the target is looked at again.

    First nobody can begin a step of it any more; then it stays open while a step that began may still be at work.
    """
    deliver(run.id)
    gone = _owner_gone(run, now)
    if run.state_type is not StateType.SCHEDULED and not gone:
        return ""
    revoke(run, "the reaper found its process gone")
    asked = ask_machines(run, now) if unfinished(run, now) else ""
    if left := unfinished(run, now):
        first = KEPT.setdefault(run.id, now) == now
        return (
            f"{run.name}: its process is gone; kept locked: {'; '.join(filter(None, (left, asked)))}" if first else ""
        )
    KEPT.pop(run.id, None)
    ASKED.pop(run.id, None)
    if not began(run):
        done = cancel(run, "never started: the process that claimed it is gone")
        return f"{run.name}: claim of a dead process released" if done else ""
    left = left_behind(run)
    why = f"its process is gone; {left}; not repeated"
    return f"{run.name}: ended, {left}" if change(run, Crashed(message=why)) or cancel(run, why) else ""


def _owner_gone(run: FlowRun, now: datetime) -> bool:
    """Gone if its process is, or if the runbook run that it belongs to has ended or is not there any more."""
    owner = Owner.from_labels(dict(run.labels))
    if owner is not None and is_gone(owner):
        return True
    try:
        parent = store.read_run(str(run.parameters.get("about", {}).get("runbook_run")))
    except (ObjectNotFound, ValueError):
        return True
    return bool(parent.state and parent.state.is_final()) or (owner is None and bool(owner_gone(parent, now)))


HANDLERS: dict[ReaperDuty, Handler] = {
    ReaperDuty.ACT: _action_run,
    ReaperDuty.SCHEDULED: reaper_runs.scheduled,
    ReaperDuty.PENDING: reaper_runs.pending,
    ReaperDuty.RUNNING: reaper_runs.running,
    ReaperDuty.PAUSED: reaper_runs.paused,
    ReaperDuty.CANCELLING: reaper_runs.cancelling,
    ReaperDuty.BROKEN_OFF: reaper_runs.broken_off,
    ReaperDuty.NOTHING: lambda _run, _now: "",
}
