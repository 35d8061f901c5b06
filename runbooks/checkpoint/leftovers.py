"""What this program left when it was killed: copies that go on by themselves, deletions that a person must settle."""

from collections.abc import Sequence
from typing import Any

from runbooks.checkpoint.copies import command, whether_it_ends, writer
from runbooks.checkpoint.evidence import Evidence, Leftover, TierFacts
from runbooks.core.args.checkpoints import InterruptedDeletion
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.sizes import size
from runbooks.core.verdict import Cause, Certainty

MANY = 20


def leftover_causes(evidence: Evidence) -> tuple[Cause, ...]:
    """One cause per tier and kind."""
    out: list[Cause] = []
    for look in evidence.tiers:
        copies = [x for x in look.leftovers if x.doing in ("copy", "pointer")]
        if copies:
            out.append(_copies(look, copies[:MANY]))
        out.extend(_deletion(look, x) for x in look.leftovers[:MANY] if x.doing == "deletion")
    return tuple(out)


def _copies(look: TierFacts, left: Sequence[Leftover]) -> Cause:
    busy = {x.name: h.pid for x in left if (h := writer(look, x.name))}
    words = tuple(f"{x.name}: {size(x.size)}, {x.doing} of {x.was}, {'goes on' if x.name in busy else 'broken off'}" for x in left)
    sure, decides = (Certainty.LIKELY if busy else Certainty.CONFIRMED), tuple(whether_it_ends(pid) for pid in busy.values())
    where = look.where.rstrip("/")
    subject = f"{where}/{left[0].name}" if len(left) == 1 else f"{len(left)} copies in {where}"
    return Cause(slug="copy-unfinished", certainty=sure, subject=subject, evidence=words, decides=decides, benign=True)


def _deletion(look: TierFacts, left: Leftover) -> Cause:
    state = "nothing of it is gone" if left.untouched else "it is not whole any more"
    words = f"{left.name}: a deletion of {left.was} was broken off, {left.files} files, {size(left.size)}; {state}"
    why = _going_on(look, left)
    return Cause(
        slug="deletion-unfinished", certainty=Certainty.LIKELY if why else Certainty.CONFIRMED,
        subject=f"{look.where.rstrip('/')}/{left.name}", evidence=(words,), decides=(why,) if why else (),
    )  # fmt: skip


def _going_on(look: TierFacts, left: Leftover) -> str:
    """Why it may still be going on; "" if it surely is not."""
    if not left.identity:
        return "its files, which could not be looked at"
    if not isinstance(look.holders, Known):
        return "whether a process has it open: not every one could be looked at"
    pid = next((h.pid for h in look.holders.value if h.path.split("/")[0] == left.name.split("/")[0]), None)
    return f"whether pid {pid}, which has it open, ends" if pid else ""


def plans_for_leftovers(config: Checkpoints, look: TierFacts, unseen: str) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """Names given back, and deletions finished; and why not."""
    every = [x for x in look.leftovers[:MANY] if x.doing == "deletion" and not _going_on(look, x)]
    left = [x for x in every if x.was]
    taken = {c.name for c in look.candidates.value} if isinstance(look.candidates, Known) else None
    back = [x for x in left if x.untouched and taken is not None and x.was not in taken]
    half = [x for x in left if not x.untouched]
    notes = [f"{x.name} is not put back: {x.was} is there again" for x in left if x.untouched and x not in back]
    notes += [f"{x.name} is neither put back nor deleted: which name it had was not said" for x in every if not x.was]
    if half and (unseen or config.tier(look.tier).shared):
        notes.append(f"what is left of {half[0].was} is not deleted: {unseen or 'the tier is shared'}")
        half = []
    return tuple(p for p in (_back(look, back), _finish(look, half)) if p), tuple(notes)


def _args(look: TierFacts, x: Leftover) -> dict[str, Any]:
    return InterruptedDeletion(node=look.node, tier=look.tier, name=x.name, was=x.was, identity=x.identity).plain()


def _back(look: TierFacts, found: list[Leftover]) -> Plan | None:
    steps = tuple(
        Step(
            kind="put-back-checkpoint", owner=look.node, args=_args(look, x),
            commands=(command("mv", "-nT", f"{look.where}/{x.name}", f"{look.where}/{x.was}"),),
            effect=f"{x.was} has its name again, as it was before its deletion began",
        )
        for x in found
    )  # fmt: skip
    name = f"put back what was not deleted on {look.tier}"
    return Plan(name=name, steps=steps, for_causes=("deletion-unfinished",)) if steps else None


def _finish(look: TierFacts, found: list[Leftover]) -> Plan | None:
    steps = tuple(
        Step(
            kind="finish-deletion", owner=look.node, args=_args(look, x),
            commands=(command("rm", "-r", f"{look.where}/{x.name}"),),
            effect=f"{size(x.size)} more are free on {look.where}",
            loses=f"what is left of {x.was}: {x.files} files, {size(x.size)}, not whole any more",
        )
        for x in found
    )  # fmt: skip
    name = f"finish the deletion on {look.tier}"
    return Plan(name=name, steps=steps, for_causes=("deletion-unfinished",)) if steps else None
