"""What a signed approve link leads to: the question as it stands now, and the one answer that it gives."""

import json
import logging
import secrets
from datetime import datetime, timedelta
from enum import StrEnum

from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from flows import store
from flows.clock import server_now
from flows.engine.answers import LINK
from flows.engine.approval import CODES, EXPIRES, answer_run, asked_plans
from flows.engine.knowingly import named, unknowing
from flows.notify.notify_file import load_notifications
from flows.notify.outbox import message_on
from flows.ui_pages import UiPage, ui_url
from runbooks.core.base import Frozen
from runbooks.core.config import ConfigError
from runbooks.core.plan import Plan
from runbooks.notify.link import Ticket, proof
from runbooks.notify.message import Message

log = logging.getLogger("flows.notify")
TAKEN_OVER = timedelta(seconds=15)  # a gateway that died before the answer reached the run: the same answer may be given again


class QuestionState(StrEnum):
    """How the question stands."""

    OPEN = "open"
    EXPIRED = "expired"
    DECIDED = "decided"  # this question has its answer
    CHANGED = "changed"  # another question is open now
    ENDED = "ended"
    NOT_YET = "not-yet"
    GONE = "gone"
    REVOKED = "revoked"  # its person is no longer in notifications.yaml
    UNCHECKED = "unchecked"  # notifications.yaml is missing here, or cannot be used: nobody knows who may decide


class LinkQuestion(Frozen):
    """What the page shows."""

    standing: QuestionState
    message: Message | None = None  # None where the plans cannot be shown
    plans: tuple[Plan, ...] = ()  # whole: what is approved is what is seen
    codes: str = "no"  # approver codes: no, optional, needed
    said: str = ""
    until: datetime | None = None
    page: str = ""  # of the run in Prefect's UI


def read_question(ticket: Ticket, now: datetime | None = None) -> LinkQuestion:
    """The question as it stands. Changes nothing. Raises what the API raises when it cannot be asked."""
    return _read_question(ticket, now or server_now()).model_copy(update={"page": _in_prefect(ticket)})


def _in_prefect(ticket: Ticket) -> str:
    try:
        config = load_notifications()
    except ConfigError:
        config = None
    return ui_url(UiPage.RUN, ticket.run, config.links.ui if config else "")


def _read_question(ticket: Ticket, now: datetime) -> LinkQuestion:
    if ticket.expired(now):
        return LinkQuestion(standing=QuestionState.EXPIRED)
    person = _person(ticket.person)
    if person is not None:
        return LinkQuestion(standing=person)
    try:
        run = store.read_run(ticket.run)
    except ObjectNotFound:
        return LinkQuestion(standing=QuestionState.GONE)
    return _stands(run, ticket, now)


def _stands(run: FlowRun, ticket: Ticket, now: datetime) -> LinkQuestion:
    state = run.state
    headline = str(run.labels.get("headline", ""))
    if state is None or state.is_final():
        return LinkQuestion(standing=QuestionState.ENDED, said=f"{state.name if state else 'gone'}: {headline}")
    if not state.is_paused():
        asked = any(s.is_paused() and s.state_details.pause_key == ticket.key for s in store.states_of(run.id))
        return LinkQuestion(standing=QuestionState.DECIDED if asked else QuestionState.NOT_YET)
    if state.state_details.pause_key != ticket.key:
        return LinkQuestion(standing=QuestionState.CHANGED)
    ends = run.labels.get(EXPIRES)
    until = datetime.fromisoformat(str(ends)) if ends else ticket.ends
    if until < now:
        return LinkQuestion(standing=QuestionState.EXPIRED)
    if _answered_by_another(store.read_input(run.id, _answer_key(ticket)), "", now):
        return LinkQuestion(standing=QuestionState.DECIDED)
    message = message_on(run)
    plans = asked_plans(str(run.id), ticket.key)
    same = message is not None and message.approval_key == ticket.key and bool(plans)
    return LinkQuestion(
        standing=QuestionState.OPEN,
        message=message if same else None,
        plans=plans if same else (),
        codes=str(run.labels.get(CODES, "no")),
        until=min(until, ticket.ends),
    )


def _person(person: str) -> QuestionState | None:
    """Why that person may not decide by link; None if notifications.yaml names them. Unknown is not allowed."""
    try:
        config = load_notifications()
    except ConfigError as e:
        log.error("links cannot be checked: %s", e)
        return QuestionState.UNCHECKED
    if config is None:
        log.error("links cannot be checked: there is no notifications.yaml here")
        return QuestionState.UNCHECKED
    return None if person in {c.person for c in config.channels.values()} else QuestionState.REVOKED


def decide(ticket: Ticket, key: bytes, decision: str, choice: str, why: str, code: str) -> tuple[bool, LinkQuestion]:
    """Gives the answer, if the question is still open and nobody gave one. (was it taken?, how the question stands)."""
    now = server_now()
    question = read_question(ticket, now)
    if question.standing is not QuestionState.OPEN:
        return False, question
    names = [p.name for p in question.plans]
    choice = choice or next((p.name for p in question.plans if not p.despite or decision != "approve"), "")
    if choice not in names:
        return False, question.model_copy(update={"said": "There is no plan of that name that can be shown."})
    plan = named(question.plans, choice)
    if decision == "approve" and (no := unknowing(plan, {"choice": choice, "why": why})):
        return False, question.model_copy(update={"said": no})
    what = f"{decision} {choice}"
    mine = json.dumps({"by": secrets.token_hex(8), "at": now.isoformat(), "what": what, "person": ticket.person})
    stored = store.store_input_once(ticket.run, _answer_key(ticket), mine)
    if stored != mine and _answered_by_another(stored, what, now):
        return False, question.model_copy(update={"standing": QuestionState.DECIDED})
    signed = f"{LINK}{proof(ticket, decision, choice, key)}:{code}"
    answer = {"decision": decision, "choice": choice, "who": ticket.person, "why": why, "code": signed}
    problem = answer_run(ticket.run, answer)
    if problem:
        log.warning("answer by link not taken for run %s: %s", ticket.run, problem)
        return False, read_question(ticket).model_copy(update={"said": problem})
    log.info("answer by link: %s run %s", decision, ticket.run)
    return True, question


def _answer_key(ticket: Ticket) -> str:
    return f"answered-{ticket.key}"


def _answered_by_another(stored: str | None, what: str, now: datetime) -> bool:
    """True unless there is no answer, or an old one that led to nothing (and, if `what` is given, was the same answer)."""
    if not stored:
        return False
    answer = json.loads(stored)
    young = now - datetime.fromisoformat(answer["at"]) < TAKEN_OVER
    return young or (bool(what) and answer["what"] != what)
