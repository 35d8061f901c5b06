"""The Prefect API as the engine uses it: runs, labels, variables, artifacts. Nothing else talks to the client."""

import json
from collections.abc import Iterable
from datetime import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from httpx import HTTPStatusError
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound

RUNBOOK_TAG = "gpu-runbook"
ACT_TAG = "gpu-act"
OPEN = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING)


def client() -> SyncPrefectClient:
    """A synchronous client; use as a context manager."""
    return get_client(sync_client=True)


def create_run(
    deployment: str,
    parameters: dict[str, Any],
    *,
    state: State[Any] | None,
    key: str | None,
    name: str | None,
    tags: Iterable[str],
    labels: dict[str, str],
) -> FlowRun:
    """Creates a run of `flow/deployment`, or returns the one that already has this idempotency key."""
    with client() as c:
        d = c.read_deployment_by_name(deployment)
        return c.create_flow_run_from_deployment(
            d.id,
            parameters=parameters,
            state=state,
            name=name,
            tags=list(tags),
            idempotency_key=key,
            labels=dict(labels),
        )


def read_run(run_id: UUID | str) -> FlowRun:
    """The run as the server has it now."""
    with client() as c:
        return c.read_flow_run(UUID(str(run_id)))


def label(run_id: UUID | str, labels: dict[str, str]) -> None:
    """Adds labels to a run; others stay."""
    with client() as c:
        c.update_flow_run_labels(UUID(str(run_id)), dict(labels))


def find_runs(
    tags: Iterable[str], states: Iterable[StateType] | None = None, limit: int = 200, since: datetime | None = None
) -> list[FlowRun]:
    """Runs with all these tags, newest first."""
    run_filter = FlowRunFilter(
        tags=FlowRunFilterTags(all_=list(tags)),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states))) if states else None,
    )
    if since is not None:
        from prefect.client.schemas.filters import FlowRunFilterExpectedStartTime

        run_filter.expected_start_time = FlowRunFilterExpectedStartTime(after_=since)
    with client() as c:
        return c.read_flow_runs(flow_run_filter=run_filter, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=limit)


def set_state(run_id: UUID | str, state: State[Any], force: bool = True) -> None:
    """Sets a run's state."""
    with client() as c:
        c.set_flow_run_state(UUID(str(run_id)), state, force=force)


def states_of(run_id: UUID | str) -> list[State[Any]]:
    """The run's states, oldest first."""
    with client() as c:
        found = c.request("GET", "/flow_run_states/", params={"flow_run_id": str(run_id)}).json()
    return sorted((State.model_validate(s) for s in found), key=lambda s: s.timestamp)


def read_input(run_id: UUID | str, key: str) -> str | None:
    """A run's stored input of that key, or None if there is none."""
    with client() as c:
        try:
            return c.read_flow_run_input(UUID(str(run_id)), key) or None
        except HTTPStatusError as e:
            if e.response.status_code == HTTPStatus.NOT_FOUND:
                return None
            raise


def get_variable(name: str) -> dict[str, Any] | None:
    """A Prefect Variable that holds JSON, or None."""
    with client() as c:
        found = c.read_variable_by_name(name)
    if found is None:
        return None
    return found.value if isinstance(found.value, dict) else json.loads(str(found.value))


def set_variable(name: str, value: dict[str, Any]) -> None:
    """Writes a Prefect Variable."""
    from prefect.client.schemas.actions import VariableCreate, VariableUpdate

    with client() as c:
        if c.read_variable_by_name(name) is None:
            c.create_variable(VariableCreate(name=name, value=value))
        else:
            c.update_variable(VariableUpdate(name=name, value=value))


def delete_variable(name: str) -> bool:
    """Deletes a Prefect Variable; False if it was not there."""
    with client() as c:
        try:
            c.delete_variable_by_name(name)
        except ObjectNotFound:
            return False
    return True


def variables(prefix: str) -> dict[str, dict[str, Any]]:
    """Every Prefect Variable whose name begins so, by the rest of its name."""
    with client() as c:
        found = c.request("POST", "/variables/filter", json={"limit": 200}).json()
    return {v["name"].removeprefix(prefix): v["value"] for v in found if v["name"].startswith(prefix)}


def pause_pool(name: str, paused: bool) -> None:
    """Stops (or lets) workers take new runs from the pool."""
    from prefect.client.schemas.actions import WorkPoolUpdate

    with client() as c:
        try:
            c.update_work_pool(name, WorkPoolUpdate(is_paused=paused))
        except ObjectNotFound:
            return


def running_runs() -> list[str]:
    """Names of runbook and act runs that are running now."""
    runs = find_runs([RUNBOOK_TAG], [StateType.RUNNING]) + find_runs([ACT_TAG], [StateType.RUNNING])
    return [r.name for r in runs]


def save_markdown(key: str, markdown: str, description: str) -> None:
    """Publishes (or replaces) the Markdown artifact of that key."""
    from prefect.artifacts import create_markdown_artifact

    create_markdown_artifact(markdown=markdown, key=key, description=description)
