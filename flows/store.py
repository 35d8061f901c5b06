"""The Prefect API as the engine uses it: runs, labels, variables, artifacts. Nothing else talks to the client."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID, uuid4

from httpx import HTTPStatusError, TransportError
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import FlowRun, FlowRunInput, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

from flows.client import BUSY, STRANGE, NotOursError, kept_client, kept_settings
from flows.current_run import current_run
from flows.patience import answered, until
from flows.run_filter import run_filter
from runbooks.core.clean import one_line
from runbooks.core.show import Markdown

T = TypeVar("T")
RUNBOOK_TAG = "gpu-runbook"
ACT_TAG = "gpu-act"
LONGEST_NAME = 200  # of a run
PATIENCE_S = 20.0
PAGE = 200  # the most the server gives at once
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 1.0
_LABELS = threading.Lock()


def quick() -> AbstractContextManager[object]:
    """While it lasts, Prefect's client does not retry by itself: `ask` does so, and sooner."""
    return kept_settings({PREFECT_CLIENT_MAX_RETRIES: 0})


def ask(question: Callable[[SyncPrefectClient], T], patience_s: float = PATIENCE_S) -> T:
    """Asks the API, again and again for `patience_s` while it is busy or restarting. Raises what it last said.

    Prefect's own client waits two seconds after a first 503, and SQLite gives one whenever two writers meet. Everything
    asked here may be asked twice: creations carry an idempotency key, the rest sets what is to be.
    """
    wait, deadline = FIRST_WAIT_S, time.monotonic() + patience_s
    while True:
        try:
            with quick(), kept_client() as c:
                return answered(question(c))
        except HTTPStatusError as e:
            if e.response.status_code in STRANGE:
                raise NotOursError(e.response.status_code) from None
            if e.response.status_code not in BUSY or time.monotonic() > until(deadline, patience_s):
                raise
        except TransportError as e:
            if isinstance(e, NotOursError) or time.monotonic() > until(deadline, patience_s):
                raise
        time.sleep(wait)
        wait = min(wait * 1.5, LONGEST_WAIT_S)


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
    d = ask(lambda c: c.read_deployment_by_name(deployment))
    return ask(
        lambda c: c.create_flow_run_from_deployment(
            d.id,
            parameters=parameters,
            state=state,
            name=one_line(name, LONGEST_NAME) if name else None,
            tags=list(tags),
            idempotency_key=key or uuid4().hex,  # never without: the request may be sent twice
            labels=dict(labels),
        )
    )


def read_run(run_id: UUID | str) -> FlowRun:
    """The run as the server has it now."""
    return ask(lambda c: c.read_flow_run(UUID(str(run_id))))


def label(run_id: UUID | str, labels: dict[str, str]) -> None:
    """Adds labels to a run; others stay.

    Prefect reads, merges and writes back, and on PostgreSQL two writers at one moment may lose one's labels: only the
    process that owns the run may write them, and here one thread at a time.
    """
    with _LABELS:
        ask(lambda c: c.update_flow_run_labels(UUID(str(run_id)), dict(labels)))


def retag(run_id: UUID | str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Adds and removes tags of a run; others stay."""
    tags = set(read_run(run_id).tags)
    wanted = (tags | set(add)) - set(remove)
    if wanted != tags:
        ask(lambda c: c.update_flow_run(UUID(str(run_id)), tags=sorted(wanted)))


def rename(run_id: UUID | str, name: str) -> None:
    """Gives a run another name."""
    ask(lambda c: c.update_flow_run(UUID(str(run_id)), name=one_line(name, LONGEST_NAME)))


def find_runs(
    tags: Iterable[str],
    states: Iterable[StateType] | None = None,
    limit: int | None = None,
    patience_s: float = PATIENCE_S,
    offset: int = 0,
    **more: Any,
) -> list[FlowRun]:
    """Runs with all these tags, newest first: all of them, or the newest `limit`. `more`: see `run_filter`."""
    wanted = run_filter(tags, states, **more)
    newest = FlowRunSort.EXPECTED_START_TIME_DESC
    found: dict[UUID, FlowRun] = {}
    asked = 0
    while limit is None or asked < limit:
        size = PAGE if limit is None else min(PAGE, limit - asked)
        at = offset + asked
        page = ask(
            partial(SyncPrefectClient.read_flow_runs, flow_run_filter=wanted, sort=newest, limit=size, offset=at), patience_s
        )
        found |= {run.id: run for run in page}
        asked += len(page)
        if len(page) < size:
            break
    return list(found.values())


def resume(run_id: UUID | str, run_input: dict[str, Any]) -> str:
    """Resumes a suspended run with a form's content. Returns "" or why the server would not take it."""
    result = ask(lambda c: c.resume_flow_run(UUID(str(run_id)), run_input=run_input))
    return "" if str(result.status.value) == "ACCEPT" else str(getattr(result.details, "reason", result.status.value))


def states_of(run_id: UUID | str) -> list[State[Any]]:
    """The run's states, oldest first."""
    found = ask(lambda c: c.request("GET", "/flow_run_states/", params={"flow_run_id": str(run_id)}).json())
    return sorted((State.model_validate(s) for s in found), key=lambda s: s.timestamp)


def read_input(run_id: UUID | str, key: str) -> str | None:
    """A run's stored input of that key, or None if there is none."""
    try:
        return ask(lambda c: c.read_flow_run_input(UUID(str(run_id)), key)) or None
    except HTTPStatusError as e:
        if e.response.status_code == HTTPStatus.NOT_FOUND:
            return None
        raise


def store_input_once(run_id: UUID | str, key: str, value: str, patience_s: float = PATIENCE_S) -> str:
    """Stores an input that is not there yet. Returns what is stored: `value`, or what another asker stored first."""
    try:
        ask(lambda c: c.create_flow_run_input(UUID(str(run_id)), key, value), patience_s)
    except HTTPStatusError as e:
        if e.response.status_code != HTTPStatus.CONFLICT:
            raise
    return read_input(run_id, key) or ""


def inputs(run_id: UUID | str, prefix: str, most: int) -> list[FlowRunInput]:
    """A run's stored inputs whose key begins so, in the order in which they were stored."""
    return ask(lambda c: c.filter_flow_run_input(UUID(str(run_id)), prefix, most, set()))


def delete_input(run_id: UUID | str, key: str) -> None:
    """Takes a stored input away; it may be gone already."""
    try:
        ask(lambda c: c.delete_flow_run_input(UUID(str(run_id)), key))
    except HTTPStatusError as e:
        if e.response.status_code != HTTPStatus.NOT_FOUND:
            raise


def get_variable(name: str) -> dict[str, Any] | None:
    """A Prefect Variable that holds JSON, or None."""
    found = ask(lambda c: c.read_variable_by_name(name))
    if found is None:
        return None
    return found.value if isinstance(found.value, dict) else json.loads(str(found.value))


def set_variable(name: str, value: dict[str, Any]) -> None:
    """Writes a Prefect Variable."""
    from prefect.client.schemas.actions import VariableCreate, VariableUpdate

    def write(c: SyncPrefectClient) -> None:
        if c.read_variable_by_name(name) is None:
            with suppress(ObjectAlreadyExists):  # another run set it just now
                c.create_variable(VariableCreate(name=name, value=value))
                return
        c.update_variable(VariableUpdate(name=name, value=value))

    ask(write)


def delete_variable(name: str) -> bool:
    """Deletes a Prefect Variable; False if it was not there."""
    try:
        ask(lambda c: c.delete_variable_by_name(name))
    except ObjectNotFound:
        return False
    return True


def variables(prefix: str) -> dict[str, dict[str, Any]]:
    """Every Prefect Variable whose name begins so, by the rest of its name."""
    found: list[dict[str, Any]] = []
    wanted = {"variables": {"name": {"like_": prefix}}}
    while len(page := ask(partial(_variables, json=wanted | {"limit": PAGE, "offset": len(found)}))) == PAGE:
        found += page
    return {v["name"].removeprefix(prefix): v["value"] for v in (*found, *page) if v["name"].startswith(prefix)}


def _variables(c: SyncPrefectClient, json: dict[str, Any]) -> list[dict[str, Any]]:
    return list(c.request("POST", "/variables/filter", json=json).json())


def running_runs() -> list[str]:
    """Names of runbook and action runs that are running now."""
    runs = find_runs([RUNBOOK_TAG], [StateType.RUNNING]) + find_runs([ACT_TAG], [StateType.RUNNING])
    return [r.name for r in runs]


def save_markdown(key: str, markdown: Markdown, description: Markdown) -> None:
    """Publishes (or replaces) the Markdown artifact of that key. The UI renders the description as Markdown, too."""
    run = current_run()
    wanted = ArtifactCreate(key=key, type="markdown", data=markdown, description=description, flow_run_id=run and run.id)
    ask(lambda c: c.create_artifact(wanted))  # twice the same is one page
