"""Changes the state of a run only from the state in which it was read; a run that has ended is never changed."""

from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import Cancelled, Cancelling

from flows import store


def change(run: FlowRun, state: State[Any]) -> bool:
    """Proposes `state` by Prefect's own rules. False if the run has moved on since it was read, or Prefect refuses.

    Prefect has no compare-and-set for states: the run is read again right before, and what is left in between (some
    milliseconds) is guarded by its rules. By those no ended run crashes, and a cancelled one can only be cancelled.
    """
    if not _unchanged(run):
        return False
    taken = store.ask(lambda c: c.set_flow_run_state(UUID(str(run.id)), state, force=False))
    if taken.status is SetStateStatus.ACCEPT:
        return True
    now = store.read_run(run.id).state  # the first answer may have been lost, and the second try been refused
    return now is not None and (now.type, now.message) == (state.type, state.message)


def _unchanged(run: FlowRun) -> bool:
    now = store.read_run(run.id).state
    return now is not None and run.state is not None and now.id == run.state.id and not now.is_final()


def cancel(run: FlowRun, why: str) -> bool:
    """Ends a run as Cancelled, by way of Cancelling: an ended run can not become that, so it stays as it ended."""
    if run.state is not None and not run.state.is_cancelling():
        if not change(run, Cancelling(message=why)):
            return bool((run := store.read_run(run.id)).state and run.state.is_cancelled())  # Prefect had nothing to wait for
        run = store.read_run(run.id)
    return change(run, Cancelled(message=why))
