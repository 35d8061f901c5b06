"""Decides what a run may do with a plan: nothing, ask, act, or why not. Pure: history and time are passed in."""

from datetime import datetime, timedelta
from enum import StrEnum

from flows.engine.knowingly import how_to, on_offer
from runbooks.core.base import Frozen
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Risk
from runbooks.core.policy import KindPolicy, Mode, Policy
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.verdict import Certainty, Diagnosis


class Decision(StrEnum):
    """What the gate says."""

    NOTHING = "nothing"  # nothing to do, or diagnose mode
    ASK = "ask"
    ACT = "act"
    REFUSE = "refuse"
    AGAIN = "again"  # another run has changed the target since it was read: read it again


class PastAction(Frozen):
    """An action run on one owner, as history."""

    owner: str
    kinds: tuple[str, ...]
    causes: tuple[str, ...]
    started_at: datetime
    verified: str = ""  # Outcome.FIXED or NOT_FIXED; "" when nobody saw
    going_on: str = ""  # name of its run while it has not ended
    ended_at: datetime | None = None
    of: tuple[str, ...] = ()  # what its steps were about, besides the owner


class Gate(Frozen):
    """The gate's answer: `plans` are the choices left, `why` explains it. Of a refusal it holds what refuses, and nothing else."""

    decision: Decision
    plans: tuple[Plan, ...] = ()
    why: tuple[Refusal, ...] = ()
    approval_ttl_s: float = 0.0
    frozen: str = ""  # the freeze that alone refuses it
    else_asked: tuple[Refusal, ...] = ()  # why a person would be asked, did freeze or breaker not refuse it


def _no(code: RefusalCode, why: str) -> Refusal:
    return Refusal(code=code, why=why)


def risk_of(plan: Plan, risks: dict[str, Risk]) -> Risk:
    """The worst risk among the steps. An unknown kind counts as destructive."""
    order = [Risk.SAFE, Risk.DISRUPTIVE, Risk.DESTRUCTIVE]
    return max((risks.get(s.kind, Risk.DESTRUCTIVE) for s in plan.steps), key=order.index)


def decide(
    diagnosis: Diagnosis,
    mode: Mode,
    policy: Policy,
    risks: dict[str, Risk],
    history: tuple[PastAction, ...],
    now: datetime,
    hands_off: str = "",
    choice: str = "",
) -> Gate:
    """What may be done about `diagnosis`: the chosen plan first, judged as the one that would be done.

    `hands_off`: why the target is opted out ("" if it isn't). `choice`: name of the plan that was asked for.
    """
    offered = on_offer(diagnosis, mode, choice)
    if not offered:
        return Gate(decision=Decision.NOTHING, why=tuple(_no(RefusalCode.IN_USE, w) for w in how_to(diagnosis, mode)))
    if mode is Mode.DIAGNOSE:
        return Gate(decision=Decision.NOTHING, why=(_no(RefusalCode.MODE, "diagnose mode: nothing was changed"),))
    if hands_off:
        return Gate(decision=Decision.REFUSE, why=(_no(RefusalCode.HANDS_OFF, f"hands off: {hands_off}"),))
    plans, why = _allowed(diagnosis, offered, policy, risks)
    if not plans:
        return Gate(decision=Decision.REFUSE, why=why)
    named = [p for p in plans if p.name == choice]
    first = [p for p in named if not p.despite]
    plans = (*first, *(p for p in plans if p not in first))
    unknown = (_no(RefusalCode.NEEDS_APPROVAL, f"no plan is named “{choice}” here"),) if choice and not named else ()
    kinds = sorted({s.kind for p in plans for s in p.steps})
    ttl = min(policy.kind(k).approval_ttl_s for k in kinds)
    asks = unknown + _must_ask(plans[0], mode, policy, risks, history, now)
    decision = Decision.ASK if asks else Decision.ACT
    return Gate(decision=decision, plans=plans, why=why + asks, approval_ttl_s=ttl)


def _allowed(
    diagnosis: Diagnosis, offered: tuple[Plan, ...], policy: Policy, risks: dict[str, Risk]
) -> tuple[tuple[Plan, ...], tuple[Refusal, ...]]:
    sure = {c.slug for c in diagnosis.wrong if c.certainty is Certainty.CONFIRMED}
    plans, why = [], []
    for plan in offered:
        unsure = [c for c in plan.for_causes if c not in sure]
        unknown = [s.kind for s in plan.steps if s.kind not in risks]
        barred = sorted({s.kind for s in plan.steps if policy.kind(s.kind).mode is Mode.DIAGNOSE})
        if unsure or not plan.for_causes:
            why.append(_no(RefusalCode.NOT_CONFIRMED, f"“{plan.name}” needs a confirmed cause ({', '.join(unsure) or 'none named'})"))
        elif unknown:
            said = f"“{plan.name}” has a step that this engine cannot do: {', '.join(unknown)}"
            why.append(_no(RefusalCode.UNKNOWN_ACTION, said))
        elif policy.mode is Mode.DIAGNOSE or barred:
            said = f"“{plan.name}”: the policy file allows only diagnosis for {', '.join(barred) or 'every run'}"
            why.append(_no(RefusalCode.POLICY, said))
        else:
            plans.append(plan)
    return tuple(plans), tuple(why)


def overtaken(gate: Gate, history: tuple[PastAction, ...], read_at: datetime | None) -> Gate:
    """`gate`, unless another run is at work on the same owner now, or was after the target was read at `read_at`."""
    if gate.decision not in (Decision.ASK, Decision.ACT):
        return gate
    busy = [
        _no(RefusalCode.OWNER_BUSY, f"{a.owner} is locked by action run {a.going_on}") for a in history if a.going_on
    ]
    if busy:
        return Gate(decision=Decision.REFUSE, plans=gate.plans, why=tuple(busy))
    stale = read_at is not None and any((a.ended_at or a.started_at) >= read_at for a in history)
    return gate.model_copy(update={"decision": Decision.AGAIN}) if stale else gate


def offers(again: Diagnosis, plan: Plan) -> bool:
    """True if a plan that does the same to the same is still among those of the newest look."""
    return any(p.digest == plan.digest for p in (*again.plans, *again.knowingly))


def lets(gate: Gate, plan: Plan, by_a_person: bool) -> bool:
    """True if the gate's newest answer lets exactly that plan be carried out: by itself, or because a person allowed it."""
    decided = gate.decision is Decision.ACT or (by_a_person and gate.decision is Decision.ASK)
    return decided and any(p.digest == plan.digest for p in gate.plans)


def _must_ask(
    plan: Plan, mode: Mode, policy: Policy, risks: dict[str, Risk], history: tuple[PastAction, ...], now: datetime
) -> tuple[Refusal, ...]:
    """Reasons why a person must decide; empty: may act by itself."""
    if mode is not Mode.AUTO:
        return (_no(RefusalCode.MODE, "approve mode"),)
    reasons = []
    if policy.mode is not Mode.AUTO:
        reasons.append(_no(RefusalCode.POLICY, f"the policy file limits every run to {policy.mode}"))
    for kind in sorted({s.kind for s in plan.steps}):
        if policy.kind(kind).mode is not Mode.AUTO:
            reasons.append(_no(RefusalCode.POLICY, f"the policy file does not name {kind} as automatic"))
    if risk_of(plan, risks) is Risk.DESTRUCTIVE:
        reasons.append(_no(RefusalCode.NEEDS_APPROVAL, "destructive steps are never automatic"))
    return tuple(reasons) + _worn(plan, policy, history, now)


def _worn(plan: Plan, policy: Policy, history: tuple[PastAction, ...], now: datetime) -> tuple[Refusal, ...]:
    """Cooldown, attempts, and a last change that was not seen to work."""
    reasons = []
    for kind in sorted({s.kind for s in plan.steps}):
        limits, past = policy.kind(kind), _past(plan, kind, policy, history, now)
        alike = past if limits.of_each is None else [a for a in past if _shares(a, plan, kind)]
        reasons += _too_often(kind, limits, past, alike, now)
        if alike:
            reasons += _too_soon(kind, limits, max(alike, key=lambda a: a.started_at), now)
    return tuple(reasons)


def _past(plan: Plan, kind: str, policy: Policy, history: tuple[PastAction, ...], now: datetime) -> list[PastAction]:
    """Actions of that kind on the same owners for one of the same causes that still count."""
    limits, owners = policy.kind(kind), {s.owner for s in plan.steps if s.kind == kind}
    return [
        a
        for a in history
        if a.owner in owners
        and kind in a.kinds
        and set(a.causes) & set(plan.for_causes)
        and now - a.started_at < timedelta(seconds=max(limits.window_s, limits.cooldown_s))
    ]


def _too_often(kind: str, limits: KindPolicy, past: list[PastAction], alike: list[PastAction], now: datetime) -> list[Refusal]:
    """`attempts` bounds everything on the owner; `of_each`, where it is set, one of its things besides."""
    reasons: list[Refusal] = []
    window = timedelta(seconds=limits.window_s)
    done = sum(now - a.started_at < window for a in past)
    if done >= limits.attempts:
        said = f"{kind} was done {done} times in {limits.window_s:.0f} s for the same cause: escalate"
        reasons.append(_no(RefusalCode.ATTEMPTS_SPENT, said))
    own = sum(now - a.started_at < window for a in alike)
    if limits.of_each is not None and own >= limits.of_each:
        said = f"{kind} was done {own} times in {limits.window_s:.0f} s on the same target: escalate"
        reasons.append(_no(RefusalCode.ATTEMPTS_SPENT, said))
    return reasons


def _too_soon(kind: str, limits: KindPolicy, last: PastAction, now: datetime) -> list[Refusal]:
    reasons, age = [], (now - last.started_at).total_seconds()
    if age < limits.cooldown_s:
        said = f"{kind} was done here {age:.0f} s ago for the same cause (cooldown {limits.cooldown_s:.0f} s)"
        reasons.append(_no(RefusalCode.COOLDOWN, said))
    if last.verified != Outcome.FIXED:
        said = f"the last {kind} here is not proven to have worked; nothing is retried automatically"
        reasons.append(_no(RefusalCode.LAST_NOT_PROVEN, said))
    return reasons


def _shares(act: PastAction, plan: Plan, kind: str) -> bool:
    """True if the action was about the same finer thing as a step of the plan, or does not say about which."""
    things = {s.of for s in plan.steps if s.kind == kind}
    return not any(act.of) or bool(things & set(act.of))
