"""The action flow: does the steps of one lock, once. The only place from which anything is changed."""

import contextlib
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.exceptions import Abort
from prefect.flow_engine import run_flow
from prefect.states import Completed, Failed

from flows import store
from flows.alert_notes import resolved
from flows.current_run import current_run
from flows.engine.actions import ACTIONS
from flows.engine.ends import clean_end, in_words
from flows.engine.execution import check_newest
from flows.engine.guards import check_breaker, check_freeze
from flows.engine.lock import Lock
from flows.engine.progress import Timeline
from flows.engine.running_on import may_run_on
from flows.engine.shown import step_done
from flows.engine.steps import RUNS_ON, WITHDRAWN, begin, label_steps, record
from flows.engine.stopping import LOOK_EVERY_S, end_of, settle
from flows.engine.uninterrupted import uninterrupted
from flows.launch import run_settings
from runbooks.core.clean import one_line
from runbooks.core.kinds import undo_of
from runbooks.core.plan import Step
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.report import ActionRecord, Undo
from tasks.context import ActionRefused, Context, RunningAction, utc_now
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError


@dataclass
class Session:
    """What a runbook run lends to the action flow that it calls."""

    lock: Lock
    context: Context
    timeline: Timeline
    runbook_run: str
    execution: int
    before: Callable[[int], bool]  # does what the plan wants done before step i of the lock; False: it was not done
    allowed: Callable[[], None]  # raises ActionRefused if the files say by now that this may not be
    said: list[str] = field(default_factory=list)
    undo: list[Undo] = field(default_factory=list)
    outcome: str = "not-started"
    refused: Refusal | None = None  # the guard's no that ended it
    ends: list[str] = field(default_factory=list)  # of each step of the lock, for people
    rows: list[str] = field(default_factory=list)  # what its row says; "" if it was not begun


_SESSION: ContextVar[Session | None] = ContextVar("act_session", default=None)


@flow(name="act", persist_result=False, retries=0, validate_parameters=False)
@clean_end
def run_action(
    owner: str,
    n: int,
    token: str,
    digest: str,
    kinds: list[str],
    causes: list[str],
    steps: list[dict[str, Any]],
    process: dict[str, Any],
    about: dict[str, Any],
) -> State[Any]:
    """Does the locked steps on `owner`. Only the runbook run that holds the lock can call it."""
    session = _SESSION.get()
    run = current_run()
    if session is None or run is None or str(run.id) != session.lock.act_run or token != session.lock.token:
        return Failed(
            name="Refused", message="an action runs only inside the runbook run that locked its target; start the runbook again"
        )
    if run.run_count > 1:
        said = "an action never runs twice; start the runbook again"
        session.outcome, session.refused = "refused", Refusal(code=RefusalCode.SUPERSEDED, why=said)
        return Failed(name="Refused", message=said)
    end = _do_all(session)
    try:
        return end_of(store.read_run(session.lock.act_run).state, end)
    except Abort:
        raise
    except Exception:  # the server is silent: what was done is no failure for that, and Prefect asks a minute more to tell it
        return end


def _do_all(session: Session) -> State[Any]:
    steps = session.lock.steps
    session.ends, session.rows = ["not begun"] * len(steps), [""] * len(steps)
    for i, step in enumerate(steps):
        if not session.before(i):
            said = f"{step.kind} was not started: an earlier step of the plan was not done"
            session.outcome, session.refused = "refused", Refusal(code=RefusalCode.EARLIER_STEP, why=said)
            session.said.append(said)
            return Failed(name="Refused", message=said)
        session.ends[i], said = _one(session, i, step)
        said = installation_redactor().text(said)  # Prefect stores it
        if session.ends[i] == "done":
            session.timeline.reached("step-done", f"{step.kind}: {said}")
            continue
        session.said.append(said)
        session.timeline.reached("step-done", said)
        session.outcome = session.ends[i]
        return Failed(name=session.outcome.capitalize(), message=one_line(said, 500))
    session.outcome = "done"
    return Completed(name="Done", message=one_line("; ".join(session.said), 500))


def _one(session: Session, i: int, step: Step) -> tuple[str, str]:
    """(how the step ended, what is said of it). What was begun is written down before and after."""
    act_run, action = session.lock.act_run, ACTIONS[step.kind]
    try:
        _wait_first(session, step)
        session.allowed()
        _still_allowed(session)
        session.timeline.reached("step-begins", f"{step.kind} on {step.owner}")
    except Exception as e:
        return "refused", _why_not_started(session, step, e)
    try:
        deadline_s = action.deadline_s(step, session.context)
        begun = begin(act_run, i, session.lock.token, step.kind, deadline_s)
    except ActionRefused as e:
        return "refused", _why_not_started(session, step, e)
    except Exception as e:  # it may stand there as begun: it is not
        record(act_run, i, WITHDRAWN, store.PATIENCE_S)
        return "refused", _why_not_started(session, step, e)
    with uninterrupted():
        session.timeline.passed("step-begun")
        try:
            _still_allowed(session)  # asked last: what comes after it is named as the window that remains
            begun.check()
        except Exception as e:
            record(act_run, i, WITHDRAWN, store.PATIENCE_S)
            return "refused", _why_not_started(session, step, e)
        how, said, end = step_done(step, lambda: _do(session, step, time.monotonic() + deadline_s))
        session.rows[i] = end
        session.timeline.passed("step-acted")
        if not record(act_run, i, end):
            said += "; the server did not answer, so this is not in its record yet"
    return how, said


def _why_not_started(session: Session, step: Step, error: Exception) -> str:
    """Why a step was not begun, in words; and, with its code, for the report."""
    if isinstance(error, ActionRefused):
        code, said = error.code, f"{step.kind} refused: {error}"
    else:  # who cannot ask does not act
        code, said = RefusalCode.CANNOT_CHECK, f"{step.kind} was not started: {in_words(error)}"
    session.refused = Refusal(code=code, why=installation_redactor().text(said))
    return said


def _wait_first(session: Session, step: Step) -> None:
    """What a step has to wait for is waited for before it begins, so that a freeze or a cancellation still counts."""
    wait_s = ACTIONS[step.kind].wait_s
    left, why = wait_s(step, session.context) if wait_s else (0.0, "")
    if left > 0:
        session.said.append(why)
    while left > 0:
        _still_allowed(session)
        session.context.sleep(min(left, LOOK_EVERY_S))
        left -= LOOK_EVERY_S


def _do(session: Session, step: Step, ends: float) -> tuple[str, str, str]:
    """(how it ended, what is said of it, what goes into its row). Its commands are over when its lock ends."""
    acting = session.context.acting
    context = replace(session.context, acting=acting.model_copy(update={"ends": ends}) if acting else None)
    try:
        result = ACTIONS[step.kind].do(step, context)
    except ActionRefused as e:
        return "refused", _why_not_started(session, step, e), "refused"
    except TransportError as e:
        return "failed", f"{step.kind}: {e}", RUNS_ON if may_run_on(e) else "failed"
    except Exception as e:
        return "failed", f"{step.kind}: {in_words(e)}", RUNS_ON if may_run_on(e) else "failed"
    clean = tuple(map(installation_redactor().text, result.said))
    session.said.extend(clean)
    words, commands = undo_of(step, {"fleet": context.fleet.file or "FILE"} | result.facts)
    session.undo.insert(0, Undo(kind=step.kind, words=words, commands=commands))
    return "done", "; ".join(clean), "done"


def _still_allowed(session: Session) -> None:
    """Freeze, breaker, and fencing: a run declared dead or begun anew, or whose alert ended, may not go on."""
    check_freeze()
    check_breaker(session.context.fleet.name, session.lock.place.marks)
    for what, run_id in (("this act run", session.lock.act_run), ("the runbook run", session.runbook_run)):
        run = store.read_run(run_id)
        state = run.state
        if state is None or not state.is_running():
            said = f"{what} is {state.name if state else 'gone'}, not running: another process took over"
            raise ActionRefused(RefusalCode.SUPERSEDED, said)
        if resolved(run):
            raise ActionRefused(RefusalCode.ALERT_RESOLVED, "the alert that started this run was resolved meanwhile")
    check_newest(session.runbook_run, session.execution)


def do_locked_steps(
    lock: Lock,
    context: Context,
    timeline: Timeline,
    runbook_run: str,
    execution: int,
    before: Callable[[int], bool],
    allowed: Callable[[], None],
) -> ActionRecord:
    """Runs the action flow for `lock` in this process and returns what happened."""
    context = replace(context, acting=RunningAction(run=lock.act_run, owner=lock.owner, lock=lock.place.lock))
    session = Session(lock, context, timeline, runbook_run, execution, before, allowed)
    reset = _SESSION.set(session)
    began = utc_now()
    try:
        with run_settings(), contextlib.suppress(Abort):  # Abort: others have ended its run meanwhile
            run_flow(run_action, flow_run=store.read_run(lock.act_run), return_type="state")
        settle(lock.act_run)
    except Exception as e:
        if session.outcome == "not-started" and not session.ends:
            raise
        session.said.append(f"the action's own state could not be set ({in_words(e)}); this report says what was done")
    finally:
        _SESSION.reset(reset)
    label_steps(lock.act_run, [s.kind for s in lock.steps], session.rows)
    return ActionRecord(
        owner=lock.owner,
        kinds=tuple(s.kind for s in lock.steps),
        act_run=lock.act_run,
        digest="",
        started_at=began,
        ended_at=utc_now(),
        outcome=session.outcome,
        steps=tuple(session.ends),
        said=tuple(session.said),
        undo=tuple(session.undo),
        refused=session.refused,
    )
