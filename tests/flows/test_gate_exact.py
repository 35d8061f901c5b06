"""The gate's whole answer (decision, plans left, every reason, how long an approval counts), one branch at a time.

Written against mutants of the gate: what no assertion here notices, `make prove` reports.
"""

from datetime import UTC, datetime, timedelta

import pytest

from flows.engine.gate import Decision, Gate, PastAction, decide, lets, offers, overtaken, risk_of
from runbooks.core.plan import Plan, Risk, Step
from runbooks.core.policy import Budget, KindPolicy, Mode, Policy
from runbooks.core.refusal import Refusal, RefusalCode
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.support.arguments import sample

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RISKS = {"save": Risk.SAFE, "end": Risk.DISRUPTIVE, "start": Risk.DISRUPTIVE, "wipe": Risk.DESTRUCTIVE}
AUTO = KindPolicy(mode=Mode.AUTO, approval_ttl_s=900)


def step(kind: str, owner: str = "n", of: str = "") -> Step:
    return Step(kind=kind, owner=owner, args=sample(kind), commands=(), effect="", of=of)


def plan(name: str, *steps: Step, causes: tuple[str, ...] = ("c",)) -> Plan:
    return Plan(name=name, steps=steps, for_causes=causes)


def sick(*plans: Plan, certainty: Certainty = Certainty.CONFIRMED) -> Diagnosis:
    cause = Cause(slug="c", certainty=certainty, subject="s", evidence=("e",))
    other = Cause(slug="d", certainty=Certainty.CONFIRMED, subject="s", evidence=("e",))
    return Diagnosis(state=State.UNHEALTHY, headline="", causes=(cause, other), plans=plans)


def policy(mode: Mode = Mode.AUTO, **kinds: KindPolicy) -> Policy:
    return Policy(mode=mode, kinds=kinds)


def past(ago_s: float, **facts: object) -> PastAction:
    usual = {"owner": "n", "kinds": ("end",), "causes": ("c",), "started_at": NOW - timedelta(seconds=ago_s)}
    return PastAction.model_validate(usual | {"verified": "fixed"} | facts)


CODES = {
    "diagnose mode": RefusalCode.MODE,
    "approve mode": RefusalCode.MODE,
    "hands off": RefusalCode.HANDS_OFF,
    "no plan is named": RefusalCode.NEEDS_APPROVAL,
    "are never automatic": RefusalCode.NEEDS_APPROVAL,
    "the policy file": RefusalCode.POLICY,
    "needs a confirmed cause": RefusalCode.NOT_CONFIRMED,
    "this engine cannot do": RefusalCode.UNKNOWN_ACTION,
    "(cooldown": RefusalCode.COOLDOWN,
    ": escalate": RefusalCode.ATTEMPTS_SPENT,
    "is not proven to have worked": RefusalCode.LAST_NOT_PROVEN,
    "is locked by action run": RefusalCode.OWNER_BUSY,
}


def no(*why: str) -> tuple[Refusal, ...]:
    """Each reason with the code that it must have."""
    return tuple(Refusal(code=next(code for words, code in CODES.items() if words in w), why=w) for w in why)


END, SAVE = plan("clean", step("end")), plan("copy", step("save"))
WIPE = plan("wipe", step("wipe"))
BOTH = policy(end=AUTO, save=KindPolicy(mode=Mode.AUTO, approval_ttl_s=60))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (("save",), Risk.SAFE),
        (("save", "end"), Risk.DISRUPTIVE),
        (("end", "save"), Risk.DISRUPTIVE),
        (("wipe", "end", "save"), Risk.DESTRUCTIVE),
        (("save", "unknown"), Risk.DESTRUCTIVE),
    ],
)
def test_the_worst_step_is_the_plans_risk(steps: tuple[str, ...], expected: Risk) -> None:
    assert risk_of(plan("p", *map(step, steps)), RISKS) is expected


@pytest.mark.parametrize(
    ("diagnosis", "mode", "with_policy", "more", "expected"),
    [
        (sick(), Mode.AUTO, BOTH, {}, Gate(decision=Decision.NOTHING)),
        (sick(), Mode.AUTO, BOTH, {"hands_off": "n"}, Gate(decision=Decision.NOTHING)),
        (sick(END), Mode.DIAGNOSE, BOTH, {}, Gate(decision=Decision.NOTHING, why=no("diagnose mode: nothing was changed"))),
        (sick(END), Mode.AUTO, BOTH, {"hands_off": "n: ana"}, Gate(decision=Decision.REFUSE, why=no("hands off: n: ana"))),
        (sick(END), Mode.AUTO, BOTH, {}, Gate(decision=Decision.ACT, plans=(END,), approval_ttl_s=900)),
        (sick(END), Mode.APPROVE, BOTH, {}, Gate(decision=Decision.ASK, plans=(END,), why=no("approve mode"), approval_ttl_s=900)),
        (sick(END, SAVE), Mode.AUTO, BOTH, {}, Gate(decision=Decision.ACT, plans=(END, SAVE), approval_ttl_s=60)),
        (
            sick(END, SAVE),
            Mode.AUTO,
            BOTH,
            {"choice": "copy"},
            Gate(decision=Decision.ACT, plans=(SAVE, END), approval_ttl_s=60),
        ),
        (
            sick(END),
            Mode.AUTO,
            BOTH,
            {"choice": "claen"},
            Gate(decision=Decision.ASK, plans=(END,), why=no("no plan is named “claen” here"), approval_ttl_s=900),
        ),
        (
            sick(END),
            Mode.AUTO,
            policy(Mode.APPROVE, end=AUTO),
            {},
            Gate(decision=Decision.ASK, plans=(END,), why=no("the policy file limits every run to approve"), approval_ttl_s=900),
        ),
        (
            sick(END),
            Mode.AUTO,
            policy(end=KindPolicy(approval_ttl_s=5)),
            {},
            Gate(decision=Decision.ASK, plans=(END,), why=no("the policy file does not name end as automatic"), approval_ttl_s=5),
        ),
        (
            sick(WIPE),
            Mode.AUTO,
            policy(wipe=AUTO),
            {},
            Gate(decision=Decision.ASK, plans=(WIPE,), why=no("destructive steps are never automatic"), approval_ttl_s=900),
        ),
    ],
)
def test_the_whole_answer(
    diagnosis: Diagnosis, mode: Mode, with_policy: Policy, more: dict[str, str], expected: Gate
) -> None:
    assert decide(diagnosis, mode, with_policy, RISKS, (), NOW, **more) == expected


@pytest.mark.parametrize(
    ("diagnosis", "with_policy", "why"),
    [
        (sick(END, certainty=Certainty.LIKELY), BOTH, "“clean” needs a confirmed cause (c)"),
        (
            sick(plan("clean", step("end"), causes=("d", "c", "e")), certainty=Certainty.POSSIBLE),
            BOTH,
            "“clean” needs a confirmed cause (c, e)",
        ),
        (sick(plan("clean", step("end"), causes=())), BOTH, "“clean” needs a confirmed cause (none named)"),
        (
            sick(plan("clean", step("fly"), step("end"), step("swim"))),
            BOTH,
            "“clean” has a step that this engine cannot do: fly, swim",
        ),
        (
            sick(plan("clean", step("end"), step("save"))),
            policy(end=KindPolicy(mode=Mode.DIAGNOSE), save=KindPolicy(mode=Mode.DIAGNOSE)),
            "“clean”: the policy file allows only diagnosis for end, save",
        ),
        (sick(END), policy(Mode.DIAGNOSE, end=AUTO), "“clean”: the policy file allows only diagnosis for every run"),
    ],
)
def test_a_plan_that_is_not_allowed_is_refused_with_its_reason(diagnosis: Diagnosis, with_policy: Policy, why: str) -> None:
    assert decide(diagnosis, Mode.AUTO, with_policy, RISKS, (), NOW) == Gate(decision=Decision.REFUSE, why=no(why))


def test_a_barred_plan_leaves_the_others() -> None:
    found = decide(sick(plan("odd", step("fly")), END), Mode.AUTO, BOTH, RISKS, (), NOW)
    assert found == Gate(
        decision=Decision.ACT,
        plans=(END,),
        why=no("“odd” has a step that this engine cannot do: fly"),
        approval_ttl_s=900,
    )


LIMITS = policy(end=KindPolicy(mode=Mode.AUTO, cooldown_s=100, attempts=2, window_s=1000, approval_ttl_s=900))
TOO_SOON = "end was done here {} s ago for the same cause (cooldown 100 s)"
NOT_SEEN = "the last end here is not proven to have worked; nothing is retried automatically"
TWICE = "end was done 2 times in 1000 s for the same cause: escalate"


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ((past(99),), (TOO_SOON.format(99),)),
        ((past(100),), ()),
        ((past(101),), ()),
        ((past(200, verified="not-fixed"),), (NOT_SEEN,)),
        ((past(200, verified=""),), (NOT_SEEN,)),
        ((past(200), past(300, verified="not-fixed")), (TWICE,)),  # the last one worked
        ((past(300, verified="not-fixed"), past(200)), (TWICE,)),  # whatever their order
        ((past(999), past(998)), (TWICE,)),
        ((past(1000), past(998)), ()),
        ((past(50), past(60), past(70)), ("end was done 3 times in 1000 s for the same cause: escalate", TOO_SOON.format(50))),
        ((past(50, owner="other"),), ()),
        ((past(50, kinds=("save",)),), ()),
        ((past(50, causes=("d",)),), ()),
        ((past(50, causes=("d", "c")),), (TOO_SOON.format(50),)),
    ],
)
def test_what_was_done_before(history: tuple[PastAction, ...], why: tuple[str, ...]) -> None:
    found = decide(sick(END), Mode.AUTO, LIMITS, RISKS, history, NOW)
    assert found == Gate(decision=Decision.ASK if why else Decision.ACT, plans=(END,), why=no(*why), approval_ttl_s=900)


def test_history_of_each_kind_counts_on_its_own_owner_only() -> None:
    """The second step's owner is not the first one's: what was done there counts for its kind alone."""
    two = plan("clean", step("end", "n"), step("start", "m"))
    limits = policy(end=KindPolicy(mode=Mode.AUTO, cooldown_s=100), start=KindPolicy(mode=Mode.AUTO, cooldown_s=100))
    elsewhere = (past(50, owner="m", kinds=("end",)), past(50, owner="n", kinds=("start",)))
    assert decide(sick(two), Mode.AUTO, limits, RISKS, elsewhere, NOW).why == ()
    here = (past(50, owner="m", kinds=("start",)),)
    assert decide(sick(two), Mode.AUTO, limits, RISKS, here, NOW).why == no(
        "start was done here 50 s ago for the same cause (cooldown 100 s)",
    )


def test_the_reasons_of_every_kind_are_given() -> None:
    two = plan("clean", step("end"), step("start"))
    limits = policy(end=KindPolicy(mode=Mode.AUTO, attempts=1), start=KindPolicy(mode=Mode.AUTO, attempts=1))
    history = (past(700), past(800, kinds=("start",)))
    assert decide(sick(two), Mode.AUTO, limits, RISKS, history, NOW).why == no(
        "end was done 1 times in 3600 s for the same cause: escalate",
        "start was done 1 times in 3600 s for the same cause: escalate",
    )


def test_a_cooldown_longer_than_the_window_still_counts() -> None:
    limits = policy(end=KindPolicy(mode=Mode.AUTO, cooldown_s=1000, attempts=1, window_s=100))
    assert decide(sick(END), Mode.AUTO, limits, RISKS, (past(999),), NOW).why == no(
        "end was done here 999 s ago for the same cause (cooldown 1000 s)",
    )
    assert decide(sick(END), Mode.AUTO, limits, RISKS, (past(1000, verified=""),), NOW).why == ()
    # an age of exactly the window is outside it: only the cooldown speaks
    assert decide(sick(END), Mode.AUTO, limits, RISKS, (past(100),), NOW).why == no(
        "end was done here 100 s ago for the same cause (cooldown 1000 s)",
    )
    each = policy(end=KindPolicy(mode=Mode.AUTO, cooldown_s=1000, attempts=9, of_each=1, window_s=100))
    assert decide(sick(END), Mode.AUTO, each, RISKS, (past(100),), NOW).why == no(
        "end was done here 100 s ago for the same cause (cooldown 1000 s)",
    )


def test_attempts_of_each_thing() -> None:
    mine = plan("clean", step("end", of="mine"))
    limits = policy(end=KindPolicy(mode=Mode.AUTO, cooldown_s=10, attempts=9, of_each=2, window_s=1000))
    twice = (past(200, of=("mine",)), past(999, of=("mine", "other")))
    said = "end was done 2 times in 1000 s on the same target: escalate"
    assert decide(sick(mine), Mode.AUTO, limits, RISKS, twice, NOW).why == no(said)
    once = (past(200, of=("mine",)), past(1000, of=("mine",)), past(300, of=("other",)))
    assert decide(sick(mine), Mode.AUTO, limits, RISKS, once, NOW).why == ()


def test_a_run_meanwhile() -> None:
    asks = Gate(decision=Decision.ASK, plans=(END,), why=no("approve mode"), approval_ttl_s=9)
    acts = asks.model_copy(update={"decision": Decision.ACT})
    for gate in (asks, acts):
        busy = past(9, going_on="act-n-7")
        assert overtaken(gate, (busy,), None) == Gate(
            decision=Decision.REFUSE, plans=(END,), why=no("n is locked by action run act-n-7")
        )
        assert overtaken(gate, (past(9, ended_at=NOW),), NOW) == gate.model_copy(update={"decision": Decision.AGAIN})
        assert overtaken(gate, (past(0),), NOW) == gate.model_copy(update={"decision": Decision.AGAIN})
        assert overtaken(gate, (past(9, ended_at=NOW - timedelta(seconds=1)),), NOW) == gate
        assert overtaken(gate, (past(9, ended_at=NOW + timedelta(seconds=1)),), None) == gate
    for settled in (Decision.NOTHING, Decision.REFUSE, Decision.AGAIN):
        gate = asks.model_copy(update={"decision": settled})
        assert overtaken(gate, (past(9, going_on="act-n-7"),), NOW) is gate


@pytest.mark.parametrize(
    ("nodes", "share", "size", "allowed"),
    [(2, 0.1, 1, 2), (2, 0.1, 9, 2), (3, 0.5, 9, 3), (2, 0.1, 10, 1), (2, 0.1, 20, 2), (2, 0.1, 29, 2), (9, 0.01, 50, 1), (1, 1, 50, 50)],
)
def test_how_many_nodes_a_budget_allows(nodes: int, share: float, size: int, allowed: int) -> None:
    assert Budget(nodes=nodes, share=share).allowed(size) == allowed


def test_the_policy_of_a_kind_is_its_own_or_the_default() -> None:
    found = Policy(kinds={"end": AUTO}, default=KindPolicy(attempts=7))
    assert (found.kind("end"), found.kind("other").attempts) == (AUTO, 7)
    assert [m.rank for m in (Mode.DIAGNOSE, Mode.APPROVE, Mode.AUTO)] == [0, 1, 2]
    with pytest.raises(ValueError, match=r"^1 validation error.*\n.*default.mode: auto is only allowed per kind, by name"):
        Policy(default=KindPolicy(mode=Mode.AUTO))


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (Policy(), 3600),
        (Policy(default=KindPolicy(window_s=10, cooldown_s=20)), 20),
        (Policy(kinds={"a": KindPolicy(window_s=9000), "b": KindPolicy(cooldown_s=8000)}), 9000),
    ],
)
def test_acts_that_are_longer_ago_than_every_window_count_for_no_kind(policy: Policy, seconds: float) -> None:
    assert policy.longest_window == timedelta(seconds=seconds)


def withheld(*plans: Plan) -> Diagnosis:
    """A verdict of which one plan is kept back, for somebody is at work."""
    kept = plan("end all", step("end")).model_copy(update={"despite": "pid 7 is at work"})
    return sick(*plans).model_copy(update={"knowingly": (kept,)})


def test_a_plan_that_is_kept_back_is_no_plan_until_somebody_names_it() -> None:
    how = "“end all” is withheld: a person who knows what is active can choose it by name (mode approve, its name as the choice)"
    for mode in (Mode.APPROVE, Mode.AUTO):
        assert decide(withheld(), mode, BOTH, RISKS, (), NOW) == Gate(
            decision=Decision.NOTHING, why=(Refusal(code=RefusalCode.IN_USE, why=how),)
        )
    assert decide(withheld(), Mode.DIAGNOSE, BOTH, RISKS, (), NOW) == Gate(decision=Decision.NOTHING)


def test_a_plan_that_is_kept_back_is_on_offer_where_it_is_named_or_a_person_is_asked_anyway() -> None:
    named = decide(withheld(), Mode.APPROVE, BOTH, RISKS, (), NOW, choice="end all")
    assert (named.decision, [p.name for p in named.plans]) == (Decision.ASK, ["end all"])
    asked = decide(withheld(END), Mode.APPROVE, BOTH, RISKS, (), NOW)
    assert (asked.decision, [p.name for p in asked.plans]) == (Decision.ASK, ["clean", "end all"])
    auto = decide(withheld(END), Mode.AUTO, BOTH, RISKS, (), NOW)
    assert [p.name for p in auto.plans] == ["clean"]


# --- judged again right before acting ---


def test_the_plan_that_was_allowed_must_still_be_offered() -> None:
    mine, other = plan("a", step("end")), plan("b", step("end", owner="m"))
    assert offers(sick(other, mine), mine) is True
    assert offers(sick(other), mine) is False
    assert offers(sick(), mine) is False
    kept = mine.model_copy(update={"despite": "pid 7 is at work"})
    withheld = sick(other).model_copy(update={"knowingly": (kept,)})
    assert offers(withheld, kept) is True
    assert offers(withheld, mine) is False, "who allowed it while nobody was at work did not know"


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("by_a_person", [True, False])
def test_the_newest_answer_must_let_exactly_that_plan(decision: Decision, by_a_person: bool) -> None:
    mine, other = plan("a", step("end")), plan("b", step("end", owner="m"))
    may = decision is Decision.ACT or (by_a_person and decision is Decision.ASK)
    assert lets(Gate(decision=decision, plans=(other, mine)), mine, by_a_person) is may
    assert lets(Gate(decision=decision, plans=(other,)), mine, by_a_person) is False
    assert lets(Gate(decision=decision), mine, by_a_person) is False
