"""Starts runbook runs in this process, so that no worker is waited for; workers resume them after approvals."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import Abort, Pause
from prefect.flow_engine import run_flow
from prefect.settings import PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED, PREFECT_FLOWS_HEARTBEAT_FREQUENCY
from prefect.states import Pending, Scheduled

from flows import store
from flows.client import kept_settings
from flows.engine.states import change
from flows.engine.stopping import settle
from flows.patience import one_run
from tasks.this_machine import this_process


def deployment_name(slug: str) -> str:
    """`flow/deployment` name of a runbook: both are its slug."""
    return f"{slug}/{slug}"


def create_pending(slug: str, parameters: dict[str, Any], key: str | None = None) -> FlowRun:
    """Creates the run that this process is going to run. Workers leave Pending runs alone.

    If this process dies before it starts the run, the reaper hands it to a worker.
    """
    return store.create_run(
        deployment_name(slug),
        parameters,
        state=Pending(message="started by hand"),
        key=key or uuid4().hex,
        name=None,
        tags=[store.RUNBOOK_TAG, f"runbook:{slug}"],
        labels=this_process().labels(),
    )


def hand_to_worker(run_id: str, why: str) -> bool:
    """Gives a Pending run that nobody has begun to the workers. False if it is not Pending any more."""
    run = store.read_run(run_id)
    if run.state is None or not run.state.is_pending():
        return False
    return change(run, Scheduled(message=f"handed to a worker: {why}"))


@contextmanager
def run_settings() -> Iterator[None]:
    """Prefect's settings for a run that we start.

    Its heartbeat thread costs up to a second at the end of each run, and the engine keeps its own beat. Versions were compared when
    the command, or the gateway, first met the server.
    """
    with kept_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED: False}):
        yield


def run_here(flow: Flow[Any, Any], run: FlowRun) -> State[Any]:
    """Runs `run` in this process to its end, or until it waits for a person (then the state is Suspended).

    One that was cancelled, maybe before it began, ends as Cancelled; one that others ended stays as they ended it.
    """
    with one_run():
        try:
            with run_settings(), suppress(Pause, Abort):
                run_flow(flow, flow_run=run, return_type="state")
        finally:
            state = settle(run.id)
    if state is None:
        raise RuntimeError(f"run {run.id} has no state")
    return state
