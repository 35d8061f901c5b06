"""The deployments of records that the version before made. They go once nothing of that version is at work; for one release."""

import sys
from contextlib import suppress
from functools import partial

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed

from deployments.errors import CommandError
from deployments.serving import find
from deployments.state import LocalState
from flows import records, store
from flows.engine import guards, used_codes
from flows.engine.state_table import OPEN
from flows.engine.states import change

COUNTED = (guards.BUDGET_TAG, used_codes.TAG)


def old_deployments() -> list[DeploymentResponse]:
    """Those that are still there; the one of actions last."""
    found = []
    for name in reversed(records.FLOWS):
        with suppress(ObjectNotFound):
            found.append(store.ask(partial(SyncPrefectClient.read_deployment_by_name, name=f"{name}/{name}")))
    return found


def retire() -> tuple[str, ...]:
    """Removes them, unless actions of that form are open: returns their names. Their records stay, and count.

    With a deployment the server deletes its scheduled runs, so a record that a Retry left in that state would be lost. A
    place in the budget or a used code is ended first; an action is ended by the reaper.
    """
    found = old_deployments()
    if not found:
        return ()
    for run in _retried():
        change(run, Completed(message="a record: a Retry of it does nothing"))
    if busy := (*store.find_runs([store.ACT_TAG], OPEN, has_deployment=True), *_retried()):
        return tuple(run.name for run in busy)
    for d in found:
        with suppress(ObjectNotFound):  # another reaper was first
            store.ask(partial(SyncPrefectClient.delete_deployment, deployment_id=d.id))
    return ()


def _retried() -> list[FlowRun]:
    return [run for tag in COUNTED for run in store.find_runs([tag], [StateType.SCHEDULED], has_deployment=True)]


def retire_and_say() -> None:
    """For commands: what keeps them is said; the reaper goes on with it."""
    if busy := retire():
        print(f"records of the previous version are still open: {', '.join(busy)}; the reaper ends them", file=sys.stderr)


def check_drained(state: LocalState) -> None:
    """Raises CommandError while worker, reaper or gateway of the version before run here: they would find no place for
    their records, in the middle of a run."""
    alive = [name for name in ("worker", "reaper", "gateway") if find(state, name)]
    if alive and old_deployments():
        raise CommandError(
            f"{', '.join(alive)} of the previous version still run here. What to do: `gpu-runbooks down`, which waits for running "
            "actions, then repeat this command",
            3,
        )
