"""The gate judges the plan that would be done."""

from datetime import UTC, datetime, timedelta

import pytest

from flows.engine.actions import risks
from flows.engine.gate import Decision, PastAction, decide, overtaken
from runbooks.core.plan import Plan, Risk, Step
from runbooks.core.policy import KindPolicy, Mode, Policy
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.support.arguments import sample

RISKS = {"end": Risk.DISRUPTIVE, "mark": Risk.DESTRUCTIVE}
POLICY = Policy(mode=Mode.AUTO, kinds={"end": KindPolicy(mode=Mode.AUTO)})


def plan(name: str, kind: str) -> Plan:
    step = Step(kind=kind, owner="n", args=sample(kind), commands=(), effect="")
    return Plan(name=name, steps=(step,), for_causes=("c",))


SICK = Diagnosis(
    state=State.UNHEALTHY,
    headline="",
    causes=(Cause(slug="c", certainty=Certainty.CONFIRMED, subject="s", evidence=("e",)),),
    plans=(plan("clean", "end"), plan("quarantine", "mark")),
)


def gate(choice: str) -> Decision:
    return decide(SICK, Mode.AUTO, POLICY, RISKS, (), datetime.now(UTC), "", choice).decision


def test_the_plan_that_the_policy_names_may_act() -> None:
    assert gate("") is Decision.ACT
    assert gate("clean") is Decision.ACT


def test_choosing_a_destructive_plan_asks_although_another_is_automatic() -> None:
    assert gate("quarantine") is Decision.ASK


def test_a_choice_that_is_not_on_offer_asks() -> None:
    assert gate("claen") is Decision.ASK


@pytest.mark.parametrize(
    ("ended_s", "going_on", "expected"),
    [
        (-5, "", Decision.ASK),  # before this target was read: what was read is what it left
        (1, "", Decision.AGAIN),  # meanwhile: nobody is asked about what is no more
        (None, "act-n-7", Decision.REFUSE),  # still at work
    ],
)
def test_another_run_was_or_is_at_work(ended_s: float | None, going_on: str, expected: Decision) -> None:
    now = datetime.now(UTC)
    ended = None if ended_s is None else now + timedelta(seconds=ended_s)
    act = PastAction(owner="n", kinds=("end",), causes=("c",), started_at=now - timedelta(seconds=9), going_on=going_on, ended_at=ended)
    asks = decide(SICK, Mode.AUTO, POLICY, RISKS, (act,), now)
    assert asks.decision is Decision.ASK, "the last one was not seen to work"
    found = overtaken(asks, (act,), now)
    assert found.decision is expected
    assert ("act-n-7" in str(found.why)) == bool(going_on)
    assert overtaken(asks, (act.model_copy(update={"going_on": ""}),), None).decision is Decision.ASK


def fixed(of: str, ago_s: float) -> PastAction:
    at = datetime.now(UTC) - timedelta(seconds=ago_s)
    return PastAction(owner="n", kinds=("end",), causes=("c",), started_at=at, verified="fixed", of=(of,) if of else ())


@pytest.mark.parametrize(
    ("of_each", "past", "expected"),
    [
        (None, [fixed("other", 5)], Decision.ASK),  # the owner's cooldown, as long as nothing else is said
        (2, [fixed("other", 5)], Decision.ACT),  # another container's death does not hold this one back
        (2, [fixed("mine", 5)], Decision.ASK),
        (2, [fixed("", 5)], Decision.ASK),  # of an older version, which did not say about which: counts for all
        (2, [fixed("mine", 700), fixed("mine", 1400)], Decision.ASK),
        (2, [fixed("other", 700), fixed("other", 1400), fixed("mine", 2100)], Decision.ACT),
        (9, [fixed(f"c{i}", 700 + i) for i in range(4)], Decision.ASK),  # all of them together: `attempts` holds
    ],
)
def test_counted_for_each_thing_of_an_owner(of_each: int | None, past: list[PastAction], expected: Decision) -> None:
    step = Step(kind="end", owner="n", args={}, commands=(), effect="", of="mine")
    sick = SICK.model_copy(update={"plans": (Plan(name="clean", steps=(step,), for_causes=("c",)),)})
    policy = Policy(mode=Mode.AUTO, kinds={"end": KindPolicy(mode=Mode.AUTO, attempts=4, of_each=of_each)})
    assert decide(sick, Mode.AUTO, policy, RISKS, tuple(past), datetime.now(UTC)).decision is expected


@pytest.mark.parametrize("kind", sorted(risks()))
def test_the_gate_lets_none_go_by_itself_that_may_not(kind: str) -> None:
    """Only in auto mode, only where the policy file names it, and never what destroys."""
    cause = Cause(slug="c", certainty=Certainty.CONFIRMED, subject="s", evidence=("e",))
    sick = Diagnosis(state=State.UNHEALTHY, headline="", causes=(cause,), plans=(plan("p", kind),))
    unsure = sick.model_copy(update={"causes": (cause.model_copy(update={"certainty": Certainty.LIKELY}),)})
    asks, acts = Policy(mode=Mode.AUTO), Policy(mode=Mode.AUTO, kinds={kind: KindPolicy(mode=Mode.AUTO)})
    capped = acts.model_copy(update={"mode": Mode.APPROVE})

    def gate(mode: Mode, policy: Policy, seen: Diagnosis = sick, hands_off: str = "") -> Decision:
        return decide(seen, mode, policy, risks(), (), datetime.now(UTC), hands_off).decision

    by_itself = Decision.ASK if risks()[kind] is Risk.DESTRUCTIVE else Decision.ACT
    assert [gate(mode, acts) for mode in Mode] == [Decision.NOTHING, Decision.ASK, by_itself]
    assert [gate(mode, asks) for mode in Mode] == [Decision.NOTHING, Decision.ASK, Decision.ASK]
    assert [gate(mode, capped) for mode in Mode] == [Decision.NOTHING, Decision.ASK, Decision.ASK]
    assert gate(Mode.AUTO, acts, unsure) is Decision.REFUSE
    assert gate(Mode.AUTO, acts, hands_off="mine") is Decision.REFUSE
