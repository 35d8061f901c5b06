"""Checks who gave an answer: by a signed link, by an approver's one-time code, or only a name as typed."""

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from flows.engine.actions import risks
from flows.engine.gate import risk_of
from flows.engine.knowingly import unknowing
from flows.engine.used_codes import first_use
from runbooks.core.base import Frozen
from runbooks.core.plan import Plan, Risk
from runbooks.notify.link import Ticket, proof
from tasks.approvers.ledger import check_code
from tasks.notify.keys import NoKey, link_key

LINK = "link:"
MOST_WRONG = 5  # answers of one run that were not taken; then it ends


class AnswerCheck(Frozen):
    """Is the answer taken, how was the name checked ("": not at all), and why it was not taken."""

    taken: bool
    how: str = ""
    why: str = ""


def check_answer(
    answer: Mapping[str, Any], run_id: str, key: str, plan: Plan, approvers: tuple[str, ...], decided: datetime
) -> AnswerCheck:
    """Judges an answer to the question `key`. A reject needs no code; an approval of a destructive plan does."""
    who, code = str(answer.get("who", "")), str(answer.get("code", "")).strip()
    how = ""
    if code.startswith(LINK):
        given, _, code = code.removeprefix(LINK).partition(":")
        why = _link_problem(given, answer, run_id, key)
        if why:
            return AnswerCheck(taken=False, why=why)
        how = "signed link"
    if answer.get("decision") == "approve" and (why := unknowing(plan, answer)):
        return AnswerCheck(taken=False, why=why)
    if answer.get("decision") != "approve" or not approvers:
        return AnswerCheck(taken=True, how=how)
    needs = risk_of(plan, risks()) is Risk.DESTRUCTIVE
    if not needs and not code:
        return AnswerCheck(taken=True, how=how)
    if who not in approvers:
        return AnswerCheck(taken=False, why=f"{who or 'nobody'!r} is not an approver; the policy names {', '.join(approvers)}")
    if not code:
        return AnswerCheck(taken=False, why=f"“{plan.name}” is destructive and needs the code of {who}'s authenticator")
    verdict = check_code(who, code, f"{run_id}/{key}", decided, first_use)
    if not verdict.ok:
        return AnswerCheck(taken=False, why=f"code of {who} not accepted: {verdict.said}")
    return AnswerCheck(taken=True, how=" and ".join(h for h in (how, "approver code") if h))


def _link_problem(given: str, answer: Mapping[str, Any], run_id: str, key: str) -> str:
    ticket = Ticket(run=run_id, key=key, person=str(answer.get("who", "")), ends=datetime.now(UTC))
    try:
        wanted = proof(ticket, str(answer.get("decision")), str(answer.get("choice", "")), link_key())
    except NoKey as e:
        return f"a link's answer cannot be checked on this machine: {e}"
    if hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
        return ""
    return "a link's answer that does not fit this question, or was signed with another machine's key"


def codes_wanted(plans: tuple[Plan, ...], approvers: tuple[str, ...]) -> str:
    """For forms: "needed" if a plan on offer is destructive, "optional" if codes are set up at all, else "no"."""
    if not approvers:
        return "no"
    return "needed" if any(risk_of(p, risks()) is Risk.DESTRUCTIVE for p in plans) else "optional"
