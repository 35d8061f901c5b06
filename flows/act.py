"""The act flow: does the steps of one claim, once. The only place from which anything is changed."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import Abort
from prefect.flow_engine import run_flow
from prefect.states import Completed, Failed

from flows import store
from flows.actions import ACTIONS
from flows.alert_notes import resolved
from flows.claim import Claim
from flows.ends import clean_end, in_words
from flows.guards import GuardSaidNo, check_breaker, check_freeze
from flows.launch import without_prefect_heartbeat
from flows.progress import Timeline
from flows.stopping import own_end, settle
from runbooks.core.plan import Step
from runbooks.core.report import ActRecord
from tasks.context import Context, Refused, utc_now
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError


@dataclass
class Session:
    """What a runbook run lends to the act flow that it calls."""

    claim: Claim
    context: Context
    timeline: Timeline
    runbook_run: str
    said: list[str] = field(default_factory=list)
    outcome: str = "not-started"


_SESSION: ContextVar[Session | None] = ContextVar("act_session", default=None)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets a step end before SIGTERM or Ctrl-C takes effect: half a change is worse than a late stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        pending.append(signum)

    old = {s: signal.signal(s, note) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)
        if pending:
            signal.raise_signal(pending[0])


@flow(name="act", persist_result=False, retries=0, validate_parameters=False)
@clean_end
def act(
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
    """Does the claimed steps on `owner`. Only the runbook run that holds the claim can call it."""
    session = _SESSION.get()
    ctx = FlowRunContext.get()
    run = ctx.flow_run if ctx else None
    if session is None or run is None or str(run.id) != session.claim.act_run or token != session.claim.token:
        return Failed(
            name="Refused", message="an act runs only inside the runbook run that claimed it; start the runbook again"
        )
    if run.run_count > 1:
        session.outcome = "refused"
        return Failed(name="Refused", message="an act never runs twice; start the runbook again")
    return own_end(session.claim.act_run, _do_all(session))


def _do_all(session: Session) -> State[Any]:
    for i, step in enumerate(session.claim.steps):
        try:
            _still_allowed(session)
            session.timeline.reached("step-begins", f"{step.kind} on {step.owner}")
            store.label(session.claim.act_run, {f"step.{i}": f"{step.kind}: begun"})
            with uninterrupted():
                said = tuple(map(installation_redactor().text, _do(step, session.context)))
                session.said.extend(said)
                store.label(session.claim.act_run, {f"step.{i}": f"{step.kind}: done"})
            session.timeline.reached("step-done", f"{step.kind}: {'; '.join(said)}")
        except (Refused, GuardSaidNo) as e:
            return _ended(session, "refused", f"{step.kind} refused: {e}")
        except TransportError as e:
            return _ended(session, "failed", f"{step.kind}: {e}")
        except Exception as e:
            return _ended(session, "failed", f"{step.kind}: {in_words(e)}")
    session.outcome = "done"
    return Completed(name="Done", message="; ".join(session.said)[:500])


def _ended(session: Session, outcome: str, text: str) -> State[Any]:
    text = installation_redactor().text(text)  # Prefect stores it
    session.outcome = outcome
    session.said.append(text)
    session.timeline.reached("step-done", text)
    return Failed(name=outcome.capitalize(), message=text[:500])


def _do(step: Step, context: Context) -> tuple[str, ...]:
    return ACTIONS[step.kind].act(step, context).said


def _still_allowed(session: Session) -> None:
    """Freeze, breaker, and fencing: a run declared dead, or whose alert ended, meanwhile may not go on."""
    check_freeze()
    check_breaker(session.context.fleet.name)
    for what, run_id in (("this act run", session.claim.act_run), ("the runbook run", session.runbook_run)):
        run = store.read_run(run_id)
        state = run.state
        if state is None or not state.is_running():
            raise GuardSaidNo(f"{what} is {state.name if state else 'gone'}, not running: another process took over")
        if resolved(run):
            raise GuardSaidNo("the alert that started this run was resolved meanwhile")


def do_claim(claim: Claim, context: Context, timeline: Timeline, runbook_run: str) -> ActRecord:
    """Runs the act flow for `claim` in this process and returns what happened."""
    session = Session(claim=claim, context=context, timeline=timeline, runbook_run=runbook_run)
    reset = _SESSION.set(session)
    began = utc_now()
    try:
        with without_prefect_heartbeat(), contextlib.suppress(Abort):  # Abort: others have ended its run meanwhile
            run_flow(act, flow_run=store.read_run(claim.act_run), return_type="state")
    finally:
        _SESSION.reset(reset)
    settle(claim.act_run)
    return ActRecord(
        owner=claim.owner,
        kinds=tuple(s.kind for s in claim.steps),
        act_run=claim.act_run,
        digest="",
        started_at=began,
        ended_at=utc_now(),
        outcome=session.outcome,
        said=tuple(session.said),
    )


@flow(name="budget-slot", persist_result=False, retries=0)
@clean_end
def budget_slot(k: int, target: str, at: str, act_run: str) -> State[Any]:
    """Never run: its runs are places in the budget, created finished."""
    return Failed(message=f"a budget place is a record, not a program ({k}, {target}, {at}, {act_run})")
