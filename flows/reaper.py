"""Ends what nobody runs any more, looks at its targets again, closes approvals that ran out. Repeats no act."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed, Scheduled

from flows import store
from flows.alert_notes import resolved
from flows.approval import EXPIRES, REAPER, answer_run
from flows.claim import began
from flows.guards import FREEZE
from flows.launch import deployment_name
from flows.outbox import DUE, owe, told_on
from flows.ownership import BEAT, BEAT_DEAD_S
from flows.retelling import retell
from runbooks.core.policy import Mode
from tasks.context import utc_now
from tasks.this_machine import Owner, is_gone

log = logging.getLogger("flows.reaper")
PENDING_LIMIT = timedelta(seconds=30)
STARTING_LIMIT = timedelta(seconds=120)  # a worker's process that is slow to start
UNOWNED_LIMIT = timedelta(seconds=90)
RESUMING_LIMIT = timedelta(seconds=30)
SEEN: dict[UUID, tuple[str, datetime]] = {}
"""Beats of runs on other machines: judged by whether they move between two rounds, by this clock alone."""
NO_LOOK = ("nightly", "nightly-shard", "sweep")
AFTER_CRASH = "after a crash of run "


Handler = Callable[[FlowRun, datetime], str]


def sweep(now: datetime | None = None) -> list[str]:
    """One round. Returns a line for each thing done; one run's failure never stops the others."""
    now = now or utc_now()
    done: list[str] = []
    yesterday = now - timedelta(hours=24)
    rounds: tuple[tuple[str, tuple[StateType, ...], datetime | None, Handler], ...] = (
        (store.ACT_TAG, (StateType.PENDING, StateType.RUNNING, StateType.SCHEDULED), None, _act),
        (store.RUNBOOK_TAG, (StateType.RUNNING,), None, _running),
        (store.RUNBOOK_TAG, (StateType.PENDING,), None, _pending),
        (store.RUNBOOK_TAG, (StateType.CRASHED,), yesterday, _crashed),
        (store.RUNBOOK_TAG, (StateType.PAUSED,), None, _waiting),
    )
    for tag, states, since, handle in rounds:
        for run in store.find_runs([tag], states, since=since):
            try:
                line = handle(run, now)
            except Exception as e:
                line = f"{run.name}: {type(e).__name__}: {e}"
            if line:
                log.info("%s", line)
                done.append(line)
    _forget(now)
    return done + retell(now)


def _forget(now: datetime) -> None:
    """Drops the beats of runs that ended long ago: the reaper lives for months."""
    for run_id in [i for i, (_, moved) in SEEN.items() if now - moved > timedelta(days=1)]:
        del SEEN[run_id]


def owner_gone(run: FlowRun, now: datetime) -> bool | None:
    """True: the process that ran it is gone (proven here, or silent too long elsewhere). None: no owner is known yet."""
    owner = Owner.from_labels(dict(run.labels))
    beat = str(run.labels.get(BEAT, ""))
    if owner is None or _older_than_its_state(run, beat):
        return None
    gone = is_gone(owner)
    if gone is not None:
        return gone
    last, seen = SEEN.get(run.id, ("", now))
    if last != beat:
        seen = now
    SEEN[run.id] = (beat, seen)
    return (now - seen).total_seconds() > BEAT_DEAD_S


def _older_than_its_state(run: FlowRun, beat: str) -> bool:
    """The labels still name the process before: the run was resumed and its new process has not signed yet."""
    running = run.state is not None and run.state.is_running()
    return bool(beat) and running and datetime.fromisoformat(beat) < _since(run)


def _since(run: FlowRun) -> datetime:
    if run.state is None:
        return utc_now()
    return run.state.timestamp


def _act(run: FlowRun, now: datetime) -> str:
    """An act run whose process is gone is ended. Its steps are never repeated; the target is looked at again."""
    gone = _act_owner_gone(run, now)
    if run.state_type is StateType.SCHEDULED or gone:
        begun = began(run)
        left = _left_behind(run)
        if not begun:
            store.set_state(run.id, Cancelled(message="never started: the process that claimed it is gone"))
            return f"{run.name}: claim of a dead process released"
        store.set_state(run.id, Crashed(message=f"its process is gone; {left}; not repeated"))
        return f"{run.name}: ended, {left}"
    return ""


def _act_owner_gone(run: FlowRun, now: datetime) -> bool:
    """Gone if its process is, or if the runbook run that it belongs to has ended or is not there any more."""
    owner = Owner.from_labels(dict(run.labels))
    if owner is not None and is_gone(owner):
        return True
    try:
        parent = store.read_run(str(run.parameters.get("about", {}).get("runbook_run")))
    except (ObjectNotFound, ValueError):
        return True
    return bool(parent.state and parent.state.is_final()) or (owner is None and bool(owner_gone(parent, now)))


def _left_behind(run: FlowRun) -> str:
    steps = sorted((k, str(v)) for k, v in run.labels.items() if k.startswith("step."))
    if not steps:
        return "no step had begun"
    return "; ".join(f"{v} (outcome not seen)" if v.endswith("begun") else v for _, v in steps)


def _running(run: FlowRun, now: datetime) -> str:
    gone = owner_gone(run, now)
    if gone is None and now - _since(run) > UNOWNED_LIMIT:
        gone = True
    if not gone:
        return ""
    store.set_state(run.id, Crashed(message="its process is gone"))
    return f"{run.name}: its process is gone; ended. " + _look_again(run)


def _crashed(run: FlowRun, _now: datetime) -> str:
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


def _pending(run: FlowRun, now: datetime) -> str:
    """A run whose creator died before it started, or that a worker dropped, goes (back) to the workers."""
    gone = owner_gone(run, now)
    limit = PENDING_LIMIT if gone else STARTING_LIMIT
    if now - _since(run) < limit or gone is False:
        return ""
    store.set_state(run.id, Scheduled(message="handed to a worker"))
    return f"{run.name}: never started; handed to a worker"


def _waiting(run: FlowRun, now: datetime) -> str:
    why = _why_close(run, now)
    if not why:
        return ""
    choices: dict[str, Any] = {"decision": "reject", "who": REAPER, "why": why}
    problem = answer_run(str(run.id), choices)
    if "schema not found" in problem and now - _since(run) > RESUMING_LIMIT:
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
