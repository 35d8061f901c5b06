"""The mildest repair first: over every situation of every runbook, and of each cause that knows a mildest one, that one."""

from collections import Counter
from functools import cache

import pytest

from runbooks.core.harshness import milder, mildest_first
from runbooks.core.kinds import KINDS, Harsh
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.plan import Plan, Risk, Step
from runbooks.core.verdict import Certainty, Diagnosis, State
from tests.runbooks.every import Situation, situations
from tests.support.arguments import sample


@cache
def judged() -> tuple[tuple[Situation, Diagnosis], ...]:
    return tuple((case, case.judge()) for case in situations())


def offered() -> list[tuple[Situation, Diagnosis]]:
    """Every situation with a plan."""
    return [(case, d) for case, d in judged() if d.plans]


def test_harshness_agrees_with_risk() -> None:
    """What is safe takes nothing away; what takes data or a place away is never automatic."""
    for kind in KINDS:
        risk, level = KINDS[kind].risk, KINDS[kind].harsh
        assert risk is not Risk.SAFE or level is Harsh.NOTHING, kind
        assert level < Harsh.A_PLACE or risk is Risk.DESTRUCTIVE, kind


def test_harshness_agrees_with_what_the_plans_say_is_lost() -> None:
    said: dict[str, set[bool]] = {}
    for _, found in offered():
        for step in (s for p in found.plans for s in p.steps):
            said.setdefault(step.kind, set()).add(step.loses.startswith("nothing"))
    for kind, nothing in said.items():
        if KINDS[kind].harsh is Harsh.NOTHING:
            assert nothing == {True}, kind
        if KINDS[kind].harsh >= Harsh.A_PLACE:
            assert nothing == {False}, kind


def test_no_report_has_a_harsher_plan_before_a_milder_one() -> None:
    for case, found in offered():
        for i, plan in enumerate(found.plans):
            assert not milder(plan, found.plans[i:]), (case.runbook, case.title, plan.name)
            assert ("harsher than" in plan.why) is bool(milder(plan, found.plans)), (case.runbook, case.title, plan.name)


def _said(found: Diagnosis) -> str:
    return "\n".join((*found.do_now, *(p.why for p in found.plans)))


def test_the_mildest_that_a_cause_knows_is_offered_or_the_report_says_why_not() -> None:
    """As runbook.yaml names it under the cause. Each of them is seen offered somewhere, and each seen excluded."""
    seen: Counter[tuple[str, str, bool]] = Counter()
    for case, found in judged():
        causes = load_runbook(case.runbook).causes
        planned = {slug for plan in found.plans for slug in plan.for_causes}
        for slug in planned | {c.slug for c in found.wrong if c.certainty is Certainty.CONFIRMED}:
            for kind, words in causes[slug].mildest.items():
                there = any(s.kind == kind for p in found.plans if slug in p.for_causes for s in p.steps)
                explained = words in _said(found)
                assert there or explained or slug not in planned, (case.runbook, case.title, slug, kind)
                seen[(case.runbook, kind, there)] += there or explained
    for slug in runbook_slugs():
        kinds = {k for c in load_runbook(slug).causes.values() for k in c.mildest}
        assert all(seen[(slug, k, there)] for k in kinds for there in (True, False)), (slug, seen)
    assert sum(seen.values()) >= 25, seen


@pytest.mark.parametrize("slug", runbook_slugs())
def test_what_a_cause_knows_as_mildest_is_a_kind_of_its_runbook(slug: str) -> None:
    book = load_runbook(slug)
    assert {k for c in book.causes.values() for k in c.mildest} <= set(book.actions)


def plan(name: str, *kinds: str, cause: str = "c") -> Plan:
    steps = tuple(Step(kind=k, owner="a", args=sample(k), commands=("x",), effect="e") for k in kinds)
    return Plan(name=name, steps=steps, for_causes=(cause,))


def ordered(*plans: Plan) -> tuple[Plan, ...]:
    return mildest_first(Diagnosis(state=State.UNHEALTHY, headline="h", plans=plans)).plans


def test_a_plan_is_as_harsh_as_its_harshest_step_and_the_order_of_equals_stays() -> None:
    """So does that of plans for different causes: one may have to come first."""
    found = ordered(
        plan("unheard of", "new-kind"), plan("end", "terminate-processes"), plan("end and start", "terminate-processes", "restart-job"),
        plan("go on", "continue-processes"), plan("other", "stop-unit", cause="d"),
    )  # fmt: skip
    assert [p.name for p in found] == ["go on", "end", "end and start", "unheard of", "other"]
    assert [p.why for p in found] == [
        "", *["harsher than “go on”: it can cost what a process has not saved"] * 2, "harsher than “go on”: it can cost data", "",
    ]  # fmt: skip
    assert ordered(*found) == found, "said once"
