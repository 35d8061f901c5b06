"""Copies of one step on several tiers, compared: by the checksums that their format stores, or byte for byte."""

from runbooks.checkpoint.copies import Copy, all_copies, whether_it_ends, writer
from runbooks.checkpoint.evidence import Candidate, Evidence
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty

MANY = 5


def marks(c: Candidate) -> str:
    """What copies of one save have in common; "" where nothing was compared."""
    return c.fingerprint or c.digest


def differing(evidence: Evidence) -> dict[int, list[Copy]]:
    """Step -> copies that look whole and are not of one save."""
    by_step: dict[int, list[Copy]] = {}
    for copy in all_copies(evidence):
        c = copy.candidate
        if c.whole and not c.suspects and marks(c):
            by_step.setdefault(c.step, []).append(copy)
    return {s: found for s, found in by_step.items() if len({marks(c.candidate) for c in found}) > 1}


def unclear(evidence: Evidence) -> set[str]:
    """Where those lie that differ and have no checksum of their own: one of them is damaged, and nothing says which."""
    return {
        c.where for found in differing(evidence).values() for c in found if c.candidate.content not in ("proven",)
        and not c.candidate.checksummed
    }  # fmt: skip


def cross_causes(evidence: Evidence) -> tuple[Cause, ...]:
    """One cause per step whose copies differ."""
    out = []
    for step, found in sorted(differing(evidence).items(), reverse=True)[:MANY]:
        words = tuple(f"{c.where}: {sized(c.candidate.size)}, content {marks(c.candidate)[:12]}…" for c in found)
        proven = all(c.candidate.content == "proven" for c in found)
        busy = next(filter(None, (writer(c.look, c.candidate.name) for c in found)), None)
        decides = ((whether_it_ends(busy.pid),) if busy else ()) + (() if proven else ("a manifest with hashes written at save time",))
        sure = Certainty.LIKELY if busy else Certainty.CONFIRMED
        out.append(Cause(slug="copies-differ", certainty=sure, subject=f"step {step}", evidence=words, decides=decides))
    return tuple(out)


def alike(evidence: Evidence, best: Copy) -> tuple[str, ...]:
    """Other places that have the same bytes, where that was compared."""
    mine = marks(best.candidate)
    return tuple(
        c.where for c in all_copies(evidence)
        if mine and c.where != best.where and c.candidate.step == best.candidate.step and marks(c.candidate) == mine
    )  # fmt: skip
