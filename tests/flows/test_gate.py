"""The gate judges the plan that would be done."""

from datetime import UTC, datetime

from flows.gate import May, decide
from runbooks.core.plan import Plan, Risk, Step
from runbooks.core.policy import KindPolicy, Mode, Policy
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State

RISKS = {"end": Risk.DISRUPTIVE, "mark": Risk.DESTRUCTIVE}
POLICY = Policy(mode=Mode.AUTO, kinds={"end": KindPolicy(mode=Mode.AUTO)})


def plan(name: str, kind: str) -> Plan:
    step = Step(kind=kind, owner="n", args={}, commands=(), effect="")
    return Plan(name=name, steps=(step,), for_causes=("c",))


SICK = Diagnosis(
    state=State.SICK,
    headline="",
    causes=(Cause(slug="c", certainty=Certainty.CONFIRMED, subject="s", evidence=("e",)),),
    plans=(plan("clean", "end"), plan("quarantine", "mark")),
)


def gate(choice: str) -> May:
    return decide(SICK, Mode.AUTO, POLICY, RISKS, (), datetime.now(UTC), "", choice).may


def test_the_plan_that_the_policy_names_may_act() -> None:
    assert gate("") is May.ACT
    assert gate("clean") is May.ACT


def test_choosing_a_destructive_plan_asks_although_another_is_automatic() -> None:
    assert gate("quarantine") is May.ASK


def test_a_choice_that_is_not_on_offer_asks() -> None:
    assert gate("claen") is May.ASK
