"""Setting bad checkpoints aside: only those that a confirmed cause proves bad."""

from runbooks.checkpoint.copies import all_copies, command
from runbooks.checkpoint.evidence import Evidence
from runbooks.core.args.checkpoints import QuarantineCheckpoint
from runbooks.core.checkpoints import TierKind
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause, Certainty

NOT_BAD = ("parts-on-hosts", "part-elsewhere", "unreadable", "archived")  # causes of a checkpoint that may be whole


def plan_quarantine(evidence: Evidence, causes: tuple[Cause, ...], withheld: list[str]) -> Plan | None:
    """Proven-bad checkpoints, renamed so that no loader picks them. Never deleted, never one that is open."""
    steps, gone = [], set()
    bad = {x.subject for x in causes if x.certainty is Certainty.CONFIRMED and x.slug not in NOT_BAD}
    for copy in all_copies(evidence):
        c, look = copy.candidate, copy.look
        if look.kind == TierKind.S3 or not c.faults or not c.identity or copy.where not in bad:
            continue
        if not isinstance(look.holders, Known) or any(
            h.path.split("/")[0] == c.name.split("/")[0] for h in look.holders.value
        ):
            withheld.append(f"{copy.where} is not quarantined: it is open, or whether it is open is not known")
            continue
        to = f"{c.name}.bad-{c.identity[:8]}"
        gone.add(copy.where)
        steps.append(Step(
            kind="quarantine-checkpoint", owner=look.node, commands=(command("mv", "-nT", copy.where, f"{look.where}/{to}"),),
            args=QuarantineCheckpoint(node=look.node, tier=look.tier, name=c.name, to=to, identity=c.identity).plain(),
            effect=f"no loader finds {c.name}; it lies beside as {to}",
        ))  # fmt: skip
    if not steps:
        return None
    sure = [x for x in causes if x.certainty is Certainty.CONFIRMED]
    theirs = {x.slug for x in sure if x.subject in gone}
    left = {x.slug for x in causes if x.subject not in gone}  # remain after it, so they can't prove it
    return Plan(name="quarantine the bad ones", steps=tuple(steps), for_causes=tuple(sorted(theirs - left or theirs)))
