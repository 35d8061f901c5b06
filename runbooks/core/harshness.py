"""How much a plan takes away, and the order that follows: of the plans for a cause the mildest stands first. Pure."""

from collections.abc import Sequence

from runbooks.core.kinds import KINDS, Harsh
from runbooks.core.plan import Plan
from runbooks.core.verdict import Diagnosis

LOSES = {
    Harsh.NOTHING: "nothing that it needs",
    Harsh.A_RETRY: "a cache or a connection",
    Harsh.UNSAVED: "what a process has not saved",
    Harsh.A_PLACE: "a pod's or node's place",
    Harsh.DATA: "data",
}

def harshness(plan: Plan) -> Harsh:
    """That of its harshest step; a kind that nobody knows is taken for the worst."""
    return max((KINDS[s.kind].harsh if s.kind in KINDS else Harsh.DATA for s in plan.steps), default=Harsh.NOTHING)


def mildest_first(found: Diagnosis) -> Diagnosis:
    """The judgment with the plans for one cause in that order; each that has a milder one before it says so.

    Plans for different causes stay as the runbook has them: what must be repaired first stands first there.
    """
    rest, plans = list(found.plans), list[Plan]()
    while rest:
        plans.append(next(p for p in rest if not milder(p, rest)))
        rest.remove(plans[-1])
    told = tuple(_compared(plan, milder(plan, plans)) for plan in plans)
    return found if told == found.plans else found.model_copy(update={"plans": told})


def milder(plan: Plan, others: Sequence[Plan]) -> list[Plan]:
    """Those of the others that are milder and for one of the same causes."""
    return [p for p in others if harshness(p) < harshness(plan) and set(p.for_causes) & set(plan.for_causes)]


def _compared(plan: Plan, before: list[Plan]) -> Plan:
    if not before:
        return plan
    words = f"harsher than “{before[0].name}”: it can cost {LOSES[harshness(plan)]}"
    return plan if words in plan.why else plan.model_copy(update={"why": f"{plan.why}. It is {words}" if plan.why else words})
