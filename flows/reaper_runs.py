"""What the reaper does with runs of runbooks and sweeps: one function for each of `state_table.Does`."""

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelled, Cancelling, Crashed, Scheduled

from flows import store
from flows.alert_notes import resolved
from flows.engine.approval import EXPIRES, REAPER, answer_run
from flows.engine.liveness import asks, owner_gone, since
from flows.engine.state_table import (
    ASKED_LIMIT,
    ENDING_LIMIT,
    PENDING_LIMIT,
    QUEUED_LIMIT,
    RESUMING_LIMIT,
    STARTING_LIMIT,
    TAKEN_LIMIT,
    UNOWNED_LIMIT,
    RunKind,
    kind_of,
    longest,
    name_of,
)
from flows.engine.states import cancel, change
from flows.engine.steps import began, left_behind
from flows.engine.waiting_name import name_ended
from flows.launch import deployment_name
from flows.notify.outbox import DUE, delivery_on, mark_pending
from runbooks.core.outcome import Outcome
from runbooks.core.policy import Mode
from runbooks.core.times import utc

AFTER_CRASH = "after a crash of run "
LOOKED = "looked.again"  # label: the run that looked at the target again, or why none did
GONE = "its process is gone"
TOO_LONG = "took-too-long"  # row: the reaper cancelled it, not a person


def scheduled(run: FlowRun, now: datetime) -> str:
    """A run that no worker took for a day is ended: what it was to look at is long past."""
    planned = (run.state.state_details.scheduled_time if run.state else None) or run.expected_start_time
    if planned is None or now - planned < TAKEN_LIMIT:
        return ""
    why = f"no worker took it within {TAKEN_LIMIT} of its time"
    return f"{run.name}: {why}; ended" if cancel(run, why) else ""


def pending(run: FlowRun, now: datetime) -> str:
    """A run whose creator died or hangs before it started, or that a worker dropped, goes (back) to the workers."""
    gone = owner_gone(run, now)
    limit = {True: PENDING_LIMIT, None: STARTING_LIMIT, False: QUEUED_LIMIT}[gone]
    if now - since(run) < limit:
        return ""
    why = f"its process is alive, but did not start it within {limit}" if gone is False else "never started"
    return f"{run.name}: {why}; handed to a worker" if change(run, Scheduled(message=f"handed to a worker: {why}")) else ""


def running(run: FlowRun, now: datetime) -> str:
    """A run whose process is gone is ended; one that runs for too long is cancelled. Its target is looked at again."""
    if _gone(run, now):
        if not change(run, Crashed(message=GONE)):
            return ""
        _end_tasks(run, GONE)
        return f"{run.name}: {GONE}; ended. " + diagnose_again(run)
    return _too_long(run, now)


def _gone(run: FlowRun, now: datetime) -> bool:
    gone = owner_gone(run, now)
    return now - since(run) > UNOWNED_LIMIT if gone is None else gone


def _too_long(run: FlowRun, now: datetime) -> str:
    if now - since(run) < longest(run):
        return ""
    why = f"it has been running for more than {longest(run)}"
    store.store_input_once(run.id, TOO_LONG, why)
    return f"{run.name}: {why}; cancelled" if change(run, Cancelling(message=why)) else ""


def cancelling(run: FlowRun, now: datetime) -> str:
    """Its own process ends it. If that is gone, or does not come to it, it ends here; then it cannot go on any more."""
    gone = _gone(run, now)
    if not gone and now - since(run) < ENDING_LIMIT:
        return ""
    why = run.state.message if run.state and run.state.message else "cancelled"
    how = GONE if gone else f"its process did not end it within {ENDING_LIMIT}"
    if not change(run, Cancelled(message=f"{why}; {how}")):
        return ""
    _end_tasks(run, how)
    return f"{run.name}: {why}; {how}; ended"


def _end_tasks(run: FlowRun, why: str) -> None:
    """What a run was reading when it was cut off is not read any more, and its task run must not look so."""
    mine = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    at_work = TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING])))
    for task in store.ask(lambda c: c.read_task_runs(flow_run_filter=mine, task_run_filter=at_work)):
        store.ask(partial(_crash, task=task.id, why=why))


def _crash(client: SyncPrefectClient, task: UUID, why: str) -> object:
    return client.set_task_run_state(task, Crashed(message=why))


def broken_off(run: FlowRun, _now: datetime) -> str:
    """A run that crashed, or was cancelled after a change, gets its look again, once; what it had to tell is told."""
    name_ended(run)
    told = delivery_on(run)
    if told and not told.done and DUE not in run.tags:
        mark_pending(str(run.id), [DUE])
    if LOOKED in run.labels:
        return ""
    if run.state and run.state.is_cancelled() and not _action_runs(run) and not store.read_input(run.id, TOO_LONG):
        waited = {"outcome": Outcome.CANCELLED.value} if run.labels.get("outcome") == Outcome.WAITING.value else {}
        store.label(run.id, waited | {LOOKED: "no: it was cancelled before anything was changed"})
        return ""
    return diagnose_again(run)


def diagnose_again(run: FlowRun) -> str:
    """Hands the target to a worker for a diagnose run, once per crashed run; that run reports what was left."""
    if LOOKED in run.labels:
        return ""
    slug, trigger = name_of(run), str(run.parameters.get("trigger", ""))
    why_not = "the next sweep checks everything" if kind_of(run) is RunKind.SWEEP else ""
    if trigger.startswith(AFTER_CRASH):
        why_not = "it was itself a diagnosis after a crash"
    if why_not or not slug:
        store.label(run.id, {LOOKED: f"no: {why_not or 'its runbook is unknown'}"})
        return ""
    left = "; ".join(f"{a.name}: {left_behind(a)}" for a in _action_runs(run)) or "nothing had been changed"
    parameters = dict(run.parameters) | {"mode": Mode.DIAGNOSE.value, "trigger": f"{AFTER_CRASH}{run.id} ({left})"}
    again = store.create_run(
        deployment_name(slug),
        parameters,
        state=None,
        key=f"after-crash/{run.id}",
        name=f"{slug} {parameters.get('target')}",
        tags=[store.RUNBOOK_TAG, f"runbook:{slug}"],
        labels={},
    )
    store.label(run.id, {LOOKED: str(again.id)})
    return f"diagnosing {parameters.get('target')} again in run {again.name}"


def _action_runs(run: FlowRun) -> list[FlowRun]:
    """Its action runs of which a step had begun."""
    return [a for a in store.find_runs([store.ACT_TAG, f"run:{run.id}"]) if began(a)]


def paused(run: FlowRun, now: datetime) -> str:
    """A question that is over is answered with a reject. A run that was paused by hand asks nothing: it must live."""
    if not asks(run):
        return running(run, now)
    why = _why_close(run, now)
    if not why:
        return ""
    choices: dict[str, Any] = {"decision": "reject", "who": REAPER, "why": why}
    problem = answer_run(str(run.id), choices)
    if "schema not found" in problem and now - since(run) > RESUMING_LIMIT:
        change(run, Scheduled(message="asked, but the form was never stored: asking again"))
        return f"{run.name}: its form was lost; asking again"
    return f"{run.name}: closed: {why}" if not problem else f"{run.name}: could not be closed: {problem}"


def _why_close(run: FlowRun, now: datetime) -> str:
    """Why nobody needs to answer any more. A freeze is no reason: it holds the question, and its time goes on."""
    expires = run.labels.get(EXPIRES)
    until = datetime.fromisoformat(str(expires)) if expires else since(run) + ASKED_LIMIT
    if until < now:
        return f"no decision before {utc(until)}"
    if resolved(run):
        return "the alert was resolved"
    if now - since(run) > RESUMING_LIMIT and not _form_stored(run):
        return "its form was lost"
    return ""


def _form_stored(run: FlowRun) -> bool:
    keyset = run.state.state_details.run_input_keyset if run.state else None
    if not keyset:
        return True
    return store.read_input(str(run.id), str(keyset["schema"])) is not None
