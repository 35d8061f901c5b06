"""Nobody is ended while a mate is at work: a plan that ends a member of such a group is withheld, and the report says who works.

A group is what one look found to belong together. Who knows better may choose the plan by its name and with a reason, having read
the sentence (flows/engine/knowingly.py): never by default, never by itself, and nothing that another rule withholds. Pure.
"""

from runbooks.core.kinds import KINDS
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Diagnosis, Group

MOST_NAMED = 3  # of those at work, in one sentence


def together(found: Diagnosis) -> Diagnosis:
    """The judgment without the plans that would end a part of a group in which somebody is at work."""
    against = [(plan, why) for plan in found.plans if (why := objection(found.groups, plan))]
    if not against:
        return found
    gone = {plan.name for plan, _ in against}
    said = tuple(f"“{plan.name}” is not offered: {why}" for plan, why in against)
    kept = tuple(p for p in found.plans if p.name not in gone)
    knowingly = tuple(plan.model_copy(update={"despite": why}) for plan, why in against)
    return found.model_copy(update={"plans": kept, "knowingly": knowingly, "do_now": (*found.do_now, *said)})


def objection(groups: tuple[Group, ...], plan: Plan) -> str:
    """Who is at work beside what that plan would end, "" if nobody."""
    for step in plan.steps:
        for group in groups:
            hit = sorted(ends(step) & set(group.members)) if group.at_work else []
            if hit:
                more = "" if len(hit) == 1 else f" and {len(hit) - 1} more"
                return f"{hit[0]}{more} belongs to {group.name}. There, {'; '.join(group.at_work[:MOST_NAMED])}"
    return ""


def ends(step: Step) -> frozenset[str]:
    """What that step ends, stops or starts anew, as members of a group; of a kind that leaves all running, nothing."""
    kind = KINDS.get(step.kind)
    return frozenset(kind.ends(step)) if kind and kind.ends else frozenset()
