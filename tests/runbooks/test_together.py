"""Judged together: over every situation of every runbook, no plan ends a member of a group in which somebody is at work."""

from collections import Counter
from functools import cache

import pytest

from runbooks.core.kinds import KINDS
from runbooks.core.knowledge import runbook_slugs
from runbooks.core.plan import Plan, Step
from runbooks.core.together import ends, objection, together
from runbooks.core.verdict import Diagnosis, Group
from tests.runbooks.every import situations
from tests.support.arguments import ending

WHO = "pid 7 is at work: it writes step-70.pt"


@cache
def offered() -> tuple[tuple[str, Diagnosis], ...]:
    """(runbook, diagnosis) of every situation with a plan."""
    judged = [(case.runbook, case.judge()) for case in situations()]
    return tuple((slug, d) for slug, d in judged if d.plans)


def test_what_a_step_ends_is_named_by_its_arguments() -> None:
    """A step of an ending kind that names nothing would be outside of the rule."""
    kinds: Counter[str] = Counter()
    for _, found in offered():
        for step in (s for p in found.plans for s in p.steps if KINDS[s.kind].ends):
            kinds[step.kind] += 1
            spared = step.kind == "mark-worker-row" and step.args["to"] == "active"
            assert bool(ends(step)) is not spared, step
    assert len(kinds) >= 12, kinds


def test_no_report_ends_a_mate_of_what_is_at_work() -> None:
    for case in situations():
        found = case.judge()
        assert [p.name for p in found.plans if objection(found.groups, p)] == [], (case.runbook, case.title)


@pytest.mark.parametrize("slug", runbook_slugs())
def test_each_runbook_obeys(slug: str) -> None:
    """Anything that a plan would end has a mate at work: the plan goes and the sentence stands in its place. Else it stays."""
    for found in (d for mine, d in offered() if mine == slug):
        for plan in found.plans:
            ended = {name for step in plan.steps for name in ends(step)}
            for name in ended:
                group = Group(name="job x", members=(name, "pid 7 on elsewhere"), at_work=(WHO,))
                after = together(found.model_copy(update={"groups": (group,)}))
                assert plan.name not in [p.name for p in after.plans]
                assert any(plan.name in line and WHO in line for line in after.do_now)
                rests = found.model_copy(update={"groups": (group.model_copy(update={"at_work": ()}),)})
                assert together(rests).plans == found.plans
            other = Group(name="job y", members=("pid 7 on elsewhere",), at_work=(WHO,))
            assert plan in together(found.model_copy(update={"groups": (other,)})).plans


def test_a_pid_is_one_process_of_one_machine() -> None:
    step = Step(kind="terminate-processes", owner="node-a", args=ending(460), commands=("kill",), effect="gone")
    plan = Plan(name="p", steps=(step,), for_causes=("c",))
    for member, meant in (("pid 460 on node-a", True), ("pid 460 on node-b", False), ("pid 46 on node-a", False)):
        group = Group(name="job x", members=(member,), at_work=(WHO,))
        assert bool(objection((group,), plan)) is meant


OF_ITSELF = {  # what such a step ends is no part of anything that the look found
    "reset-gpu": "offered only while no process is on any GPU",
    "restart-job": "of a job of which no process is left",
    "remove-kept-container": "it does not run",
    "stop-supervisor": "the process that acts against the repair, by its identity",
    "stop-unit": "the unit that acts against the repair",
}


def test_what_a_plan_ends_stands_in_a_group_of_its_report() -> None:
    """A rule over groups says nothing of what is in none: of reports on several things as well."""
    outside = set()
    for slug, found in offered():
        members = {m for g in found.groups for m in g.members}
        steps = [s for p in (*found.plans, *found.knowingly) for s in p.steps if s.kind not in OF_ITSELF]
        outside |= {(slug, s.kind, name) for s in steps for name in ends(s) - members}
    assert outside == set()
