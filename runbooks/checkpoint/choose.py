"""Which checkpoint to resume from: the newest whole one, how far it is proven, and why newer ones were passed over."""

from runbooks.checkpoint.copies import SPEED, Copy, all_copies
from runbooks.checkpoint.cross import unclear
from runbooks.checkpoint.evidence import Candidate, Evidence
from runbooks.checkpoint.together import SaveStanding, together
from runbooks.core.base import Frozen
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import Known

TRUST = ("proven", "unprovable", "not-read", "damaged")  # best first


class CheckpointChoice(Frozen):
    """The answer, and what was passed over (newest first)."""

    best: Copy | None
    copies: tuple[Copy, ...]  # every whole copy of the chosen step
    newer: tuple[Copy, ...]  # newer ones that were not taken
    open: tuple[Copy, ...] = ()  # those of them that nothing speaks against: another host, a rename or another reader may make them whole
    not_everywhere: dict[str, tuple[str, ...]] = {}  # step -> nodes that lack it, for newer steps of tiers of one node


def trusted(c: Candidate) -> bool:
    """Its structure was checked and nothing speaks against it."""
    return c.whole and not c.suspects and c.format != "unknown"


def is_open(evidence: Evidence, config: Checkpoints, copy: Copy) -> bool:
    """It may well be whole: what lacks is a reading, or lies on another host."""
    c = copy.candidate
    if c.archived or c.content == "damaged" or c.suspects:
        return False
    if c.faults:
        return together(evidence, config, copy).standing not in (SaveStanding.GONE, SaveStanding.HERE)
    return bool(c.limits)


def choose(evidence: Evidence, config: Checkpoints) -> CheckpointChoice:
    """The newest step with a trusted copy that every node can reach."""
    unsure = unclear(evidence)
    copies = all_copies(evidence)
    lacking: dict[str, tuple[str, ...]] = {}
    for copy in copies:
        if not trusted(copy.candidate) or copy.where in unsure:
            continue
        nodes = missing_on(evidence, config, copy)
        if nodes and not _reachable_elsewhere(copies, copy, config):
            lacking[str(copy.candidate.step)] = nodes
            continue
        step = copy.candidate.step
        same = [c for c in copies if c.candidate.step == step and trusted(c.candidate)]
        same.sort(key=lambda c: (TRUST.index(c.candidate.content), SPEED.index(TierKind(c.look.kind))))
        newer = tuple(c for c in copies if c.candidate.step > step or (c.candidate.step == step and c not in same))
        unseen = tuple(c for c in newer if c.candidate.step > step and is_open(evidence, config, c))
        return CheckpointChoice(best=same[0], copies=tuple(same), newer=newer, open=unseen, not_everywhere=lacking)
    unseen = tuple(c for c in copies if is_open(evidence, config, c))
    return CheckpointChoice(best=None, copies=(), newer=copies, open=unseen, not_everywhere=lacking)


def missing_on(evidence: Evidence, config: Checkpoints, copy: Copy) -> tuple[str, ...]:
    """Nodes that are known to lack this step on a tier that is not shared."""
    tier = config.tier(copy.look.tier)
    if tier.kind is TierKind.S3 or tier.shared:
        return ()
    step = copy.candidate.step
    return tuple(
        o.node
        for o in evidence.others
        if o.tier == tier.name and isinstance(o.steps, Known) and step not in o.steps.value and step >= o.checked_from
    )


def _reachable_elsewhere(copies: tuple[Copy, ...], copy: Copy, config: Checkpoints) -> bool:
    return any(
        c.candidate.step == copy.candidate.step
        and trusted(c.candidate)
        and (config.tier(c.look.tier).shared or c.look.kind == TierKind.S3)
        for c in copies
    )


def why_not(c: Candidate) -> str:
    """Why a candidate was passed over, in one sentence with its evidence."""
    if c.faults:
        first = c.faults[0]
        more = f" (and {len(c.faults) - 1} more)" if len(c.faults) > 1 else ""
        return f"{first.kind}: {first.file + ': ' if first.file else ''}{first.detail}{more}"
    if c.limits:
        return f"not rejected, {c.limits[0].kind}: {c.limits[0].detail}"
    if c.archived:
        return f"lies in {c.archived}" + (" and is being restored" if c.restoring else " and must be restored first")
    if c.suspects:
        return f"suspect, {c.suspects[0].kind}: {c.suspects[0].detail}"
    if c.format == "unknown":
        return "its structure was not read"
    return "not on every node, or it differs from another copy of the step"
