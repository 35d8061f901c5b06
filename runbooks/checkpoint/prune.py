"""What may be deleted to make room: only old, whole copies that another tier has as well, and only as many as
needed."""

from collections.abc import Callable

from runbooks.checkpoint.copies import Copy, all_copies, command
from runbooks.checkpoint.evidence import Candidate, Evidence, TierFacts
from runbooks.checkpoint.limits import Limits
from runbooks.core.args.checkpoints import KeptCheckpoint, OtherCopy, PruneCheckpoints, PrunedCheckpoint
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty

FULL = ("disk-full", "inodes-full", "quota", "reserved-blocks")


def plan_prune(
    evidence: Evidence, config: Checkpoints, limits: Limits, look: TierFacts, causes: tuple[Cause, ...]
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
    why = _forbidden(config, look) or _too_few(config, look)
    if why:
        return None, (f"nothing is pruned on {look.where}: {why}",)
    kept = _kept(config, look)
    old = _old(look, kept)
    copies = {c.name: found for c in old if (found := _copies(evidence, look, c, _proven_copy))}
    free = [c for c in old if c.name in copies]
    chosen = _enough(free, look.space.value.available, _wanted(kept, limits.free_saves))
    notes = tuple(
        f"{c.name} is not pruned: no other copy of step {c.step} is proven, so it is the last whole copy"
        for c in [c for c in old if c.name not in copies][:5]
    )
    if not chosen:
        return None, (f"nothing on {look.where} may be pruned", *notes)
    return _plan(evidence, look, chosen, kept, tuple(sorted(full)), {n: c[0] for n, c in copies.items()}), notes


def copies_to_prove(evidence: Evidence, config: Checkpoints, free_saves: float) -> tuple[tuple[str, str], ...]:
    """(tier, name) whose content must be read before a full tier can do without its oldest checkpoints."""
    out: list[tuple[str, str]] = []
    for look in evidence.tiers:
        if look.kind == TierKind.S3 or not _short(look, free_saves) or _forbidden(config, look):
            continue
        kept = _kept(config, look)
        if _too_few(config, look) or not isinstance(look.space, Known):
            continue
        old = [c for c in _old(look, kept) if _copies(evidence, look, c, _may_be_copy)]
        for c in _enough(old, look.space.value.available, _wanted(kept, free_saves)):
            other = _copies(evidence, look, c, _may_be_copy)[0]
            out.append((other.look.tier, other.candidate.name))
            if not c.checksummed:
                out.append((look.tier, c.name))
    return tuple(out)


def _short(look: TierFacts, free_saves: float) -> bool:
    """As full as a cause of `FULL` says."""
    if not isinstance(look.space, Known) or not isinstance(look.candidates, Known):
        return False
    s = look.space.value
    size = max((c.size for c in look.candidates.value[:5]), default=0)
    return s.write in ("ENOSPC", "EDQUOT") or (s.inodes > 0 and s.inodes_free == 0) or s.available < size * free_saves


def _kept(config: Checkpoints, look: TierFacts) -> list[Candidate]:
    """The newest proven ones, as many as must stay."""
    found = look.candidates.value if isinstance(look.candidates, Known) else ()
    return [c for c in found if c.content == "proven" and c.whole and not c.suspects][: config.tier(look.tier).keep]


def _too_few(config: Checkpoints, look: TierFacts) -> str:
    kept, keep = len(_kept(config, look)), config.tier(look.tier).keep
    return f"only {kept} checkpoints are proven whole, {keep} must stay" if kept < keep else ""


def _old(look: TierFacts, kept: list[Candidate]) -> list[Candidate]:
    """Whole ones behind those that stay, oldest first; never one that is open or that the pointer names."""
    found = look.candidates.value if isinstance(look.candidates, Known) else ()
    behind = [c for c in reversed(found) if c.step < kept[-1].step and c.whole and not c.suspects]
    return [c for c in behind if not _open(look, c) and not _pointed(look, c) and c.identity]


def _wanted(kept: list[Candidate], free_saves: float) -> float:
    return max(c.size for c in kept) * free_saves


def _forbidden(config: Checkpoints, look: TierFacts) -> str:
    from runbooks.checkpoint.unseen import unseen_clients

    why = unseen_clients(config, look, config.tier(look.tier))
    # a job that writes its next save is no reason not to make room for it; what it has open is spared one by one
    return "" if why.startswith("pid ") else why


def _copies(
    evidence: Evidence, look: TierFacts, c: Candidate, test: Callable[[Candidate, Candidate], bool]
) -> list[Copy]:
    """Copies of that step on other tiers that last, and that are not the very same file under another path."""
    return [
        o
        for o in all_copies(evidence)
        if o.look.kind != TierKind.MEMORY
        and o.look.tier != look.tier
        and o.candidate.identity not in ("", c.identity)
        and test(o.candidate, c)
    ]


def _may_be_copy(o: Candidate, c: Candidate) -> bool:
    """By its structure it is a whole copy of the same save."""
    alike = o.step == c.step and o.size == c.size and o.fingerprint == c.fingerprint
    return alike and o.whole and not o.suspects and o.format != "unknown"


def _proven_copy(o: Candidate, c: Candidate) -> bool:
    """Its content was read: right by its checksums, or the same bytes as the one that would go."""
    return _may_be_copy(o, c) and (o.content == "proven" or bool(o.digest and o.digest == c.digest))


def _open(look: TierFacts, c: Candidate) -> bool:
    top = c.name.split("/")[0]
    return not isinstance(look.holders, Known) or any(h.path.split("/")[0] == top for h in look.holders.value)


def _pointed(look: TierFacts, c: Candidate) -> bool:
    if not isinstance(look.pointer, Known):
        return isinstance(look.pointer, Unknown) and look.pointer.reason is not UnknownReason.NOT_RECORDED
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
    evidence: Evidence,
    look: TierFacts,
    chosen: list[Candidate],
    kept: list[Candidate],
    causes: tuple[str, ...],
    copies: dict[str, Copy],
) -> Plan:
    size = sum(c.size for c in chosen)
    step = Step(
        kind="prune-checkpoints", owner=look.node,
        commands=tuple(command("rm", "-r", f"{look.where}/{c.name}") for c in chosen),
        args=PruneCheckpoints(
            node=look.node, tier=look.tier,
            delete=tuple(
                PrunedCheckpoint(name=c.name, identity=c.identity, size=c.size, elsewhere=_place(copies[c.name])) for c in chosen
            ),
            keep=tuple(KeptCheckpoint(name=c.name, identity=c.identity) for c in kept),
        ).plain(),
        effect=f"{sized(size)} more are free on {look.where}",
        loses=f"{len(chosen)} old checkpoints, {sized(size)}: " + ", ".join(c.name for c in chosen[:10]),
    )  # fmt: skip
    stay = ", ".join(c.name for c in kept)
    why = f"{stay} stay: their content was proven just now, and so was another copy of each deleted step"
    return Plan(name=f"prune {look.tier} of {evidence.node}", steps=(step,), for_causes=causes, why=why)


def _place(copy: Copy) -> OtherCopy:
    return OtherCopy(tier=copy.look.tier, name=copy.candidate.name, identity=copy.candidate.identity)
