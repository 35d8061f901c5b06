"""How a run that somebody cancels, or that was ended by others, ends in its own process: at its next safe point.

Prefect kills the process of a worker's run only. Ours live in the gateway, the watch and the command line, so they look at
their own state: before each look, before a step, inside waits, and before they say how they ended.
"""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from httpx import HTTPStatusError, TransportError
from prefect.client.schemas.objects import State
from prefect.exceptions import Abort, ObjectNotFound
from prefect.states import Cancelled

from flows import store
from flows.engine.states import change

LOOK_EVERY_S = 2.0
PATIENCE_S = 3.0


class RunStopped(Exception):
    """Somebody cancelled the run, or ended it."""


def go_on(run_id: str) -> None:
    """A safe point: raises RunStopped if the run is to end here. A server that does not answer stops no reading."""
    why = why_stop(run_id)
    if why:
        raise RunStopped(why)


def why_stop(run_id: str) -> str:
    """Why the run is to end, in words; "" if it is not, or the server does not say."""
    try:
        state = store.ask(lambda c: c.read_flow_run(UUID(run_id)), PATIENCE_S).state
    except (HTTPStatusError, TransportError, ObjectNotFound):
        return ""
    if state is None or not (state.is_cancelling() or state.is_final()):
        return ""
    what = "the run was cancelled" if state.is_cancelling() or state.is_cancelled() else f"the run was ended as {state.name}"
    return f"{what}: {state.message}" if state.message else what


def wait(run_id: str, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Waits so long, looking now and then whether the run is to end. Raises RunStopped."""
    left = seconds
    while left > LOOK_EVERY_S:
        sleep(LOOK_EVERY_S)
        left -= LOOK_EVERY_S
        go_on(run_id)
    sleep(left)


def own_end(run_id: str, wanted: State[Any]) -> State[Any]:
    """The state that the run's process may end it with. Raises Abort if it has ended already: that stays as it is.

    Prefect takes only Cancelled from a run that is being cancelled, and would take anything from one that has ended.
    """
    return end_of(state_on_server(run_id), wanted)


def end_of(state: State[Any] | None, wanted: State[Any]) -> State[Any]:
    """The same, for a run that has this state on the server."""
    if state is None or wanted.is_paused():
        return wanted
    if state.is_cancelling():
        return wanted if wanted.is_cancelled() else Cancelled(message=f"cancelled; before that: {wanted.message}"[:400])
    if state.is_final():
        raise Abort(f"the run has ended as {state.name} meanwhile; see its report")
    return wanted


def state_on_server(run_id: str) -> State[Any] | None:
    """The run's state on the server. Raises Abort if that is gone: Prefect would ask it for a minute more how the run may end.

    The run then has no process, and the reaper ends it once the server is back.
    """
    try:
        return store.read_run(run_id).state
    except TransportError as e:
        raise Abort(f"the Prefect server is gone, so the end of the run cannot be recorded: {e}") from None


def settle(run_id: UUID | str) -> State[Any] | None:
    """After the run's code: its state on the server; one that is still being cancelled is ended as Cancelled."""
    now = store.read_run(run_id)
    if now.state is not None and now.state.is_cancelling():
        change(now, Cancelled(message=now.state.message or "cancelled"))
        now = store.read_run(run_id)
    return now.state
