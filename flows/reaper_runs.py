"""What the reaper does with runs of runbooks and sweeps: one function for each handler of the state table."""

from datetime import datetime, timedelta
from typing import Any

from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed, Scheduled

from flows import store
from flows.alert_notes import resolved
from flows.approval import EXPIRES, REAPER, answer_run
from flows.claim import began
from flows.guards import FREEZE
from flows.launch import deployment_name
from flows.liveness import owner_gone, since
from flows.outbox import DUE, owe, told_on
from runbooks.core.policy import Mode

PENDING_LIMIT = timedelta(seconds=30)
STARTING_LIMIT = timedelta(seconds=120)  # a worker's process that is slow to start
UNOWNED_LIMIT = timedelta(seconds=90)
RESUMING_LIMIT = timedelta(seconds=30)
NO_LOOK = ("nightly", "nightly-shard", "sweep")
AFTER_CRASH = "after a crash of run "


def running(run: FlowRun, now: datetime) -> str:
    gone = owner_gone(run, now)
    if gone is None and now - since(run) > UNOWNED_LIMIT:
        gone = True
    if not gone:
        return ""
    store.set_state(run.id, Crashed(message="its process is gone"))
    return f"{run.name}: its process is gone; ended. " + _look_again(run)


def crashed(run: FlowRun, _now: datetime) -> str:
    """A run that crashed in any other way gets its look again, once; what it had to tell is told."""
    told = told_on(run)
    if told and not told.done and DUE not in run.tags:
        owe(str(run.id), [DUE])
    return _look_again(run)


def _look_again(run: FlowRun) -> str:
    """Hands the target to a worker for a diagnose run, once per crashed run; that run reports what was left."""
    if "looked.again" in run.labels:
        return ""
    slug = str(run.labels.get("runbook") or _slug_of(run))
    trigger = str(run.parameters.get("trigger", ""))
    if slug in NO_LOOK:
        store.label(run.id, {"looked.again": "no: the next sweep looks at everything"})
        return ""
    if trigger.startswith(AFTER_CRASH):
        store.label(run.id, {"looked.again": "no: it was itself a look after a crash"})
        return ""
    from flows.reaper import _left_behind  # the reaper imports this module

    acts = [a for a in store.find_runs([store.ACT_TAG, f"run:{run.id}"]) if began(a)]
    left = "; ".join(f"{a.name}: {_left_behind(a)}" for a in acts) or "nothing had been changed"
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
    store.label(run.id, {"looked.again": str(again.id)})
    return f"looking at {parameters.get('target')} again in run {again.name}"


def _slug_of(run: FlowRun) -> str:
    return next(t.removeprefix("runbook:") for t in run.tags if t.startswith("runbook:"))


def pending(run: FlowRun, now: datetime) -> str:
    """A run whose creator died before it started, or that a worker dropped, goes (back) to the workers."""
    gone = owner_gone(run, now)
    limit = PENDING_LIMIT if gone else STARTING_LIMIT
    if now - since(run) < limit or gone is False:
        return ""
    store.set_state(run.id, Scheduled(message="handed to a worker"))
    return f"{run.name}: never started; handed to a worker"


def waiting(run: FlowRun, now: datetime) -> str:
    why = _why_close(run, now)
    if not why:
        return ""
    choices: dict[str, Any] = {"decision": "reject", "who": REAPER, "why": why}
    problem = answer_run(str(run.id), choices)
    if "schema not found" in problem and now - since(run) > RESUMING_LIMIT:
        store.set_state(run.id, Scheduled(message="asked, but the form was never stored: asking again"))
        return f"{run.name}: its form was lost; asking again"
    return f"{run.name}: closed: {why}" if not problem else f"{run.name}: could not be closed: {problem}"


def _why_close(run: FlowRun, now: datetime) -> str:
    if store.get_variable(FREEZE):
        return "acts are frozen"
    expires = run.labels.get(EXPIRES)
    if expires and datetime.fromisoformat(str(expires)) < now:
        return f"nobody decided before {expires}"
    if resolved(run):
        return "the alert was resolved"
    if run.state and now - run.state.timestamp > RESUMING_LIMIT and not _form_stored(run):
        return "its form was lost"
    return ""


def _form_stored(run: FlowRun) -> bool:
    keyset = run.state.state_details.run_input_keyset if run.state else None
    if not keyset:
        return True
    return store.read_input(str(run.id), str(keyset["schema"])) is not None
