"""Records of the engine: runs of a flow that has no deployment, so that no worker takes one and the server refuses a Retry.

The server gives one run for each flow and idempotency key, whichever way it was asked for. Records that the version before
made, with a deployment, are of the same flows and carry the same tags: they bar and count as those made here.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from uuid import UUID

from httpx import HTTPStatusError
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import FlowRunCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound
from prefect.states import to_state_create

from flows import store
from runbooks.core.clean import one_line

ACT, BUDGET, CODE = "act", "budget-slot", "approver-code"
FLOWS = (ACT, BUDGET, CODE)


def make_flows() -> None:
    """Makes the flows that records are runs of. Once, by `up` and the reaper: where somebody deleted a flow, and with it its
    records, nothing is changed until one of them was started again."""
    store.ask(lambda c: [c.create_flow_from_name(name) for name in FLOWS])


def create_record(
    flow: str,
    parameters: dict[str, Any],
    *,
    state: State[Any],
    key: str,
    name: str,
    tags: Iterable[str],
    labels: dict[str, str],
) -> FlowRun:
    """Creates a record, or returns the one that already has this key. Raises ObjectNotFound where the flow was not made."""
    wanted = FlowRunCreate(
        flow_id=_flow_id(flow),
        parameters=parameters,
        state=to_state_create(state),
        name=one_line(name, store.LONGEST_NAME),
        tags=list(tags),
        idempotency_key=key,
        labels=dict(labels),
    )
    return store.ask(lambda c: _create(c, wanted))


def _flow_id(flow: str) -> UUID:
    try:
        return store.ask(lambda c: c.read_flow_by_name(flow)).id
    except HTTPStatusError as e:
        if e.response.status_code != HTTPStatus.NOT_FOUND:
            raise
        raise ObjectNotFound(e, help_message=f"the server has no flow {flow!r}: `gpu-runbooks up` creates it again") from e


def _create(c: SyncPrefectClient, wanted: FlowRunCreate) -> FlowRun:
    """The client's own `create_flow_run` takes no idempotency key."""
    made = c.request("POST", "/flow_runs/", json=wanted.model_dump(mode="json", exclude_unset=True))
    return FlowRun.model_validate(made.json())
