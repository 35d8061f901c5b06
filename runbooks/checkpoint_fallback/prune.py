"""What may be deleted to make room: only old, whole copies that another tier has as well, and only as many as
needed."""

from runbooks.checkpoint_fallback.choose import Copy, all_copies
from runbooks.checkpoint_fallback.evidence import Candidate, Evidence, TierLook
from runbooks.checkpoint_fallback.limits import Limits
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known, Unknown, Why
from runbooks.core.verdict import Cause, Certainty

FULL = ("disk-full", "inodes-full", "quota", "reserved-blocks")


def plan_prune(
    evidence: Evidence, config: Checkpoints, limits: Limits, look: TierLook, causes: tuple[Cause, ...]
) -> tuple[Plan | None, tuple[str, ...]]:
    """A plan for one tier of one node that is full, or why there is none."""
    full = {c.slug for c in causes if c.slug in FULL and c.certainty is Certainty.CONFIRMED and look.where in c.subject}
    if (
        not full
        or look.kind == TierKind.S3
        or not isinstance(look.candidates, Known)
        or not isinstance(look.space, Known)
    ):
        return None, ()
    why = _forbidden(config, look)
    if why:
        return None, (f"nothing is pruned on {look.where}: {why}",)
    tier = config.tier(look.tier)
    kept = [c for c in look.candidates.value if c.content == "proven" and c.whole and not c.suspects][: tier.keep]
    if len(kept) < tier.keep:
        words = f"only {len(kept)} checkpoints are proven whole, {tier.keep} must stay"
        return None, (f"nothing is pruned on {look.where}: {words}",)
    old = [c for c in reversed(look.candidates.value) if c.step < kept[-1].step and c.whole and not c.suspects]
    spared = [c for c in old if not _elsewhere(evidence, look, c)]
    free = [c for c in old if c not in spared and not _open(look, c) and not _pointed(look, c) and c.identity]
    chosen = _enough(free, look.space.value.available, max(c.size for c in kept) * limits.free_saves)
    notes = tuple(f"{c.name} is not pruned: it is the last whole copy of step {c.step}" for c in spared[:5])
    if not chosen:
        return None, (f"nothing on {look.where} may be pruned", *notes)
    return _plan(evidence, look, chosen, kept, tuple(sorted(full))), notes


def _forbidden(config: Checkpoints, look: TierLook) -> str:
    from runbooks.checkpoint_fallback.plans import unseen_clients

    why = unseen_clients(config, look, config.tier(look.tier))
    # a job that writes its next save is no reason not to make room for it; what it has open is spared one by one
    return "" if why.startswith("pid ") else why


def _elsewhere(evidence: Evidence, look: TierLook, c: Candidate) -> bool:
    """Another tier has a whole copy of that step, of the same size, and it is not the node's own memory."""
    return any(_is_copy(other, look, c) for other in all_copies(evidence))


def _is_copy(other: Copy, look: TierLook, c: Candidate) -> bool:
    o = other.candidate
    lasting = other.look.kind != TierKind.MEMORY and other.look.tier != look.tier
    return lasting and o.step == c.step and o.size == c.size and o.whole and not o.suspects and o.format != "unknown"


def _open(look: TierLook, c: Candidate) -> bool:
    top = c.name.split("/")[0]
    return not isinstance(look.holders, Known) or any(h.path.split("/")[0] == top for h in look.holders.value)


def _pointed(look: TierLook, c: Candidate) -> bool:
    if not isinstance(look.pointer, Known):
        return isinstance(look.pointer, Unknown) and look.pointer.reason is not Why.NOT_RECORDED
    text = look.pointer.value.text.rstrip("/").rpartition("/")[2]
    return text in (c.name, c.name.rpartition("/")[2], str(c.step))


def _enough(free: list[Candidate], available: int, wanted: float) -> list[Candidate]:
    """Oldest first, until there is room."""
    chosen: list[Candidate] = []
    for c in free:
        if available >= wanted:
            break
        chosen.append(c)
        available += c.size
    return chosen


def _plan(
    evidence: Evidence, look: TierLook, chosen: list[Candidate], kept: list[Candidate], causes: tuple[str, ...]
) -> Plan:
    size = sum(c.size for c in chosen)
    step = Step(
        kind="prune-checkpoints", owner=look.node, commands=tuple(f"rm -r {look.where}/{c.name}" for c in chosen),
        args={
            "node": look.node, "tier": look.tier,
            "delete": [{"name": c.name, "identity": c.identity, "size": c.size} for c in chosen],
            "keep": [{"name": c.name, "identity": c.identity} for c in kept],
        },
        effect=f"{size} bytes more are free on {look.where}",
        loses=f"{len(chosen)} old checkpoints, {size} bytes: " + ", ".join(c.name for c in chosen[:10]),
    )  # fmt: skip
    stay = ", ".join(c.name for c in kept)
    why = f"{stay} stay: their content was proven just now, and each deleted step lies whole on another tier"
    return Plan(name=f"prune {look.tier} of {evidence.node}", steps=(step,), for_causes=causes, why=why)
