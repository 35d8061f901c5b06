"""Asks a person: suspends the run with the whole plan in the form, and reads the decision when it comes back."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from prefect._flow_run_suspension import mark_flow_run_suspension_requested
from prefect._internal.pydantic.v2_schema import create_v2_schema
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause
from prefect.input.run_input import keyset_from_paused_state
from prefect.states import Suspended
from pydantic import ValidationError

from flows import store
from flows.clock import server_now
from flows.engine.answer_form import answer_form
from flows.engine.answers import MOST_WRONG, check_answer, codes_wanted
from flows.engine.gate import Gate
from flows.engine.guards import FREEZE
from flows.engine.knowingly import choices, named
from flows.engine.lock import used_by
from flows.engine.waiting_name import name_waiting
from runbooks.core.plan import Plan, plan_digest
from runbooks.core.report import Permission
from runbooks.core.show import Markdown
from runbooks.core.times import read_time, utc

REAPER = "the reaper"
NO_NAME = "a person who gave no name"
EXPIRES = "approval.expires"
IN_ADVANCE = "approval.in-advance"  # label: digest of one plan, and who typed the command that names exactly it
CODES = "approval.codes"
DIGITS = 40  # of the plans' digest in a key
CARRY_ON = timedelta(seconds=120)  # from the decision to the process that acts on it


@dataclass(frozen=True)
class ApprovalLookup:
    """The decision, if one counts; else the key under which to ask next, and why earlier answers did not count.

    `changed`: who approved what is not there any more.
    """

    permission: Permission | None
    key: str = ""
    not_taken: tuple[str, ...] = ()
    changed: str = ""


def approval_key(digest: str, attempt: int) -> str:
    """Suspension key: `[a-z0-9-]`, one per plan and attempt."""
    return f"{digest[:DIGITS]}-{attempt}"


def look_up_approval(run_id: str, gate: Gate, approvers: tuple[str, ...] = ()) -> ApprovalLookup:
    """The decision on exactly these plans, if one was given and is not spent; and the key under which to ask next.

    The same plan is not asked twice, but an approval that was already used for an action is spent: the run asks
    again. So does one whose answer was lost because a process was killed between question and answer, and one whose
    approver code or link was not right. An approval that came to a freeze (the UI takes it) counts neither then nor later.
    """
    early = None if gate.frozen else _in_advance(run_id, gate, approvers)
    if early is not None:
        return ApprovalLookup(early)
    digest = plan_digest(gate.plans)
    asked = [s.state_details.pause_key for s in store.states_of(run_id) if s.is_paused() and s.state_details.pause_key]
    not_taken: list[str] = []
    held = attempt = 0
    while (key := approval_key(digest, attempt)) in asked:
        answer = _stored_answer(run_id, key)
        if answer is not None:
            plan, approves = named(gate.plans, str(answer.get("choice", ""))), answer.get("decision") == "approve"
            if approves and (why := _held(run_id, key, gate.frozen)):
                not_taken.append(why)
                held += 1
            elif not approves or not used_by(run_id, plan.digest):
                checked = check_answer(answer, run_id, key, plan, approvers, _times(run_id, key)[1])
                if checked.taken:
                    decided = _permission(run_id, key, answer | {"choice": plan.name}, digest)
                    return ApprovalLookup(decided.model_copy(update={"checked": checked.how}), "", tuple(not_taken))
                not_taken.append(checked.why)
        attempt += 1
    if len(not_taken) - held >= MOST_WRONG:
        return ApprovalLookup(_no_more(digest, not_taken), "", tuple(not_taken))
    return ApprovalLookup(None, key, tuple(not_taken), _approved_before(run_id, asked[-1]) if asked and not attempt else "")


def _approved_before(run_id: str, last: str) -> str:
    """Who approved a plan of the run's last question and why that does not count for others. "" if nobody did, or it was carried out."""
    answer = _stored_answer(run_id, last) or {}
    plans = asked_plans(run_id, last) if answer.get("decision") == "approve" else ()
    plan = named(plans, str(answer.get("choice", ""))) if plans else None
    if plan is None or used_by(run_id, plan.digest):
        return ""
    return f"{_who(answer)} approved “{plan.name}”, but what is there now is not what was there when that was asked"


def _no_more(digest: str, not_taken: list[str]) -> Permission:
    said = f"{len(not_taken)} answers were not accepted; the last one: {not_taken[-1]}"
    return Permission(allowed=False, by="nobody", digest=digest, at=server_now(), said=said)


def _in_advance(run_id: str, gate: Gate, approvers: tuple[str, ...]) -> Permission | None:
    """The permission of whoever started this run for exactly one plan, while that is fresh and not spent."""
    run = store.read_run(run_id)
    digest, _, who = str(run.labels.get(IN_ADVANCE, "")).partition(" ")
    plan = next((p for p in gate.plans if p.digest == digest and not p.despite), None)
    at = run.created or server_now()
    if plan is None or server_now() - at > timedelta(seconds=gate.approval_ttl_s) or used_by(run_id, digest):
        return None
    if not check_answer({"decision": "approve", "who": who}, run_id, "in-advance", plan, approvers, at).taken:
        return None  # a destructive plan needs an approver's code: it is asked for
    said = "the command that started this run names exactly this plan"
    return Permission(
        allowed=True, by="person", who=who, at=at, digest=plan_digest(gate.plans), choice=plan.name, said=said
    )


def ask(
    run_id: str, gate: Gate, form: Markdown, key: str, approvers: tuple[str, ...] = (), question: Markdown | None = None
) -> None:
    """Suspends until a person decides. Never returns: raises Prefect's Pause, and the run waits without a process."""
    model = answer_form(choices(gate.plans))
    expires = server_now() + timedelta(seconds=gate.approval_ttl_s)
    store.label(run_id, {EXPIRES: expires.isoformat(), CODES: codes_wanted(gate.plans, approvers)})
    store.store_input_once(run_id, plans_key(key), json.dumps([p.model_dump(mode="json") for p in gate.plans]))
    store.store_input_once(run_id, question_key(key), json.dumps(question or form))
    _suspend(run_id, key, create_v2_schema(model.__name__, model_base=model), form, gate.plans)


def _suspend(run_id: str, key: str, schema: dict[str, Any], form: Markdown, plans: tuple[Plan, ...]) -> None:
    """What Prefect's `suspend_flow_run` does, which fails where the server is asked twice after a lost answer: then the question
    would stand there without a form. The form comes after the state: the server forgets an older one when the run suspends."""
    asking: State[Any] = Suspended(timeout_seconds=None, pause_key=key)
    rows = {str(part): name for part, name in keyset_from_paused_state(asking).items()}
    asking.state_details.run_input_keyset = rows
    stands = _suspended(run_id, asking)
    name_waiting(run_id, plans)  # before the form: nobody can answer yet, and so the run cannot go on meanwhile
    store.store_input_once(run_id, rows["schema"], json.dumps(schema))
    store.store_input_once(run_id, rows["description"], json.dumps(form))
    mark_flow_run_suspension_requested(UUID(run_id), stands)
    raise Pause(state=stands)


def _suspended(run_id: str, state: State[Any]) -> State[Any]:
    """Suspends a run under the state's key and returns the state as the server has it. Raises RuntimeError if it refuses.

    Asked again after a lost answer, the server refuses a second suspension: what counts is what it has then.
    """
    result = store.ask(lambda c: c.set_flow_run_state(UUID(run_id), state))
    found = store.read_run(run_id).state
    if found is None or not found.is_paused() or found.state_details.pause_key != state.state_details.pause_key:
        why = getattr(result.details, "reason", result.status.value)
        raise RuntimeError(f"the run was not suspended: {why}; nothing was done")
    return found


def plans_key(key: str) -> str:
    """Where the plans of a question are kept for whoever shows them."""
    return f"plans-{key}"


def question_key(key: str) -> str:
    """Where the question itself is kept, with commands that can be pasted."""
    return f"question-{key}"


def asked_plans(run_id: str, key: str) -> tuple[Plan, ...]:
    """The plans that a question is about, whole; none if they are not there, not those of its key, or of another version."""
    text = store.read_input(run_id, plans_key(key))
    try:
        plans = tuple(Plan.model_validate(p) for p in json.loads(text)) if text else ()
    except ValidationError:
        return ()
    return plans if plan_digest(plans)[:DIGITS] == key.rpartition("-")[0] else ()


def _stored_answer(run_id: str, key: str) -> dict[str, Any] | None:
    return _answer_at(run_id, f"suspended-{key}-response")


def _answer_at(run_id: str, key: str) -> dict[str, Any] | None:
    text = store.read_input(run_id, key)
    found = json.loads(text) if text else None
    return found if isinstance(found, dict) else None


def _held(run_id: str, key: str, frozen: str) -> str:
    """Why the approval under `key` is none: a freeze was there when it was first looked at. "" if there was none."""
    row = f"held-{key}"
    return store.store_input_once(run_id, row, frozen) if frozen else store.read_input(run_id, row) or ""


def was_asked(run_id: str) -> bool:
    """True if this run has asked a person before."""
    return any(s.is_paused() and s.state_details.run_input_keyset for s in store.states_of(run_id))


def _who(answer: dict[str, Any]) -> str:
    return str(answer.get("who", "")).strip() or NO_NAME


def _permission(run_id: str, key: str, answer: dict[str, Any], digest: str) -> Permission:
    asked, decided = _times(run_id, key)
    who, why = _who(answer), str(answer.get("why", ""))
    common = {"who": who, "at": decided, "digest": digest, "choice": str(answer.get("choice", "")), "said": why}
    if who == REAPER:
        return Permission(allowed=False, by="nobody", **common)
    until = read_time(str(store.read_run(run_id).labels.get(EXPIRES)))
    if until and server_now() > until + CARRY_ON and answer.get("decision") == "approve" and decided <= until:
        late = f"approved at {utc(decided)}, but the run continued only after the approval had expired"
        return Permission(allowed=False, by="nobody", **(common | {"said": late}))
    if until and decided > until:
        late = f"decided at {utc(decided)}, after the approval had expired (asked {utc(asked)})"
        return Permission(allowed=False, by="nobody", **(common | {"said": late}))
    return Permission(allowed=answer.get("decision") == "approve", by="person", **common)


def _times(run_id: str, key: str) -> tuple[datetime, datetime]:
    """When the question was asked and when the run was resumed, by the server's clock."""
    asked = decided = server_now()
    seen = False
    for state in store.states_of(run_id):
        if state.is_paused() and state.state_details.pause_key == key:
            asked, seen = state.timestamp, True
        elif seen:
            decided = state.timestamp
            break
    return asked, decided


def answer_run(run_id: str, decision: dict[str, Any]) -> str:
    """Resumes a waiting run with a decision. Returns "" or why it is not taken. A freeze holds approvals, not rejects.

    A server that took it may not have been heard, and then refuses the second try: what it stored decides.
    """
    if decision.get("decision") == "approve" and (frozen := store.get_variable(FREEZE)):
        return f"actions are frozen since {frozen.get('at', '?')}: {frozen.get('why', '')}; answer the question after the freeze"
    waits = store.read_run(run_id).state
    keyset = waits.state_details.run_input_keyset if waits is not None and waits.is_paused() else None
    problem = store.resume(run_id, decision)
    if problem and keyset and _answer_at(run_id, str(keyset["response"])) == decision:
        return ""
    return problem
