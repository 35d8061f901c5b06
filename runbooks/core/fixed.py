"""How a plan that was carried out ended: what counts as fixed. Pure; who acts and observes is the engine."""

from collections.abc import Collection, Sequence

from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Step
from runbooks.core.report import ActionRecord
from runbooks.core.verdict import Diagnosis, State


def steps_left(plan: Plan, acts: Sequence[ActionRecord]) -> tuple[tuple[int, Step, str], ...]:
    """(number in the plan, step, how it ended) of each step that was not done."""
    ends = {a.owner: list(a.steps) or [a.outcome] * len(plan.steps) for a in acts}
    left = []
    for number, step in enumerate(plan.steps, 1):
        of_owner = ends.get(step.owner)
        end = of_owner.pop(0) if of_owner else "not begun"
        if end != "done":
            left.append((number, step, end))
    return tuple(left)


def part_left(plan: Plan, acts: Sequence[ActionRecord]) -> Plan:
    """The plan with only the steps that were not done, for a person to go on with."""
    return plan.model_copy(update={"steps": tuple(step for _, step, _ in steps_left(plan, acts))})


def seen_gone(plan: Plan, after: Diagnosis, unread: Collection[str] = ()) -> bool:
    """Not seen gone is not gone: the causes are not there any more, and what had to be read was read.

    `unread`: what they rest on and could not be read (confirmed.unseen). Only where all else is well can another reading stand for it.
    """
    left = {c.slug for c in after.wrong}
    told = after.state is State.HEALTHY or (after.state is State.UNHEALTHY and not unread)
    return told and not left & {*plan.for_causes, *plan.also_gone}


def failed_proof(acts: Sequence[ActionRecord], proving: Collection[str]) -> ActionRecord | None:
    """The action that failed with a kind that is itself the proof: what is read afterwards cannot say more than it."""
    return next((a for a in acts if a.outcome == "failed" and any(k in proving for k in a.kinds)), None)


def ended_as(plan: Plan, acts: Sequence[ActionRecord], after: Diagnosis, gone: bool) -> Outcome:
    """Fixed needs all three: every step was done, the fault is seen gone, and nothing else is seen to be wrong."""
    left = steps_left(plan, acts)
    if not left and gone:
        return Outcome.FIXED if after.state is State.HEALTHY else Outcome.PARTLY_FIXED
    if not left:
        return Outcome.NOT_FIXED
    if len(left) == len(plan.steps) and all(end in ("refused", "not begun") for _, _, end in left):
        return Outcome.HEALTHY if after.state is State.HEALTHY else Outcome.REFUSED  # nothing was changed by us
    return Outcome.PARTLY_FIXED if gone else Outcome.NOT_FIXED
