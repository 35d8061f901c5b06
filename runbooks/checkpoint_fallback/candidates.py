"""Causes that lie in the checkpoints themselves: each fault by what it means and where it usually comes from."""

from collections.abc import Iterable

from runbooks.checkpoint_fallback.copies import Copy, all_copies
from runbooks.checkpoint_fallback.evidence import Evidence, FaultSeen
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import meanings

CUT = ("truncated", "tiny", "empty", "all-zero")
IMPOSTORS = ("lfs-pointer", "html", "xml-error", "json-error", "not-a-checkpoint")
HALF = ("unfinished", "metadata-missing", "shard-missing", "part-missing", "manifest-missing-file")
BY_KIND = {
    "trailing-bytes": "extra-bytes", "prepended-bytes": "extra-bytes", "crc": "bit-flip", "hash": "bit-flip",
    "zero-hole": "zero-hole", "mixed-saves": "mixed-saves", "keys-missing": "missing-keys",
    "step-mismatch": "wrong-step",
    "world-size": "world-size-differs", "unreadable": "unreadable", "manifest-size": "truncated",
    **dict.fromkeys(HALF, "killed-mid-save"), **dict.fromkeys(IMPOSTORS, "not-a-checkpoint"),
    **dict.fromkeys(CUT, "truncated"), "metadata-damaged": "truncated",
}  # fmt: skip
FULL = {"full": tuple(f"checkpoint-fallback/{slug}" for slug in ("truncated-by-full-disk", "disk-full", "quota"))}


def candidate_causes(evidence: Evidence) -> tuple[Cause, ...]:
    """One cause per damaged checkpoint (its first fault decides), newest first; archived ones too."""
    out: list[Cause] = []
    for copy in all_copies(evidence):
        c = copy.candidate
        if c.archived:
            words = f"{copy.where}: storage class {c.archived}" + (", a restore is going on" if c.restoring else "")
            out.append(_cause("archived", Certainty.CONFIRMED, copy, [words]))
        elif c.faults:
            out.append(_damaged(evidence, copy))
        elif c.suspects:
            out.append(_suspect(copy))
    return tuple(out)


def _cause(
    slug: str, certainty: Certainty, copy: Copy, evidence: Iterable[str], decides: tuple[str, ...] = ()
) -> Cause:
    return Cause(slug=slug, certainty=certainty, subject=copy.where, evidence=tuple(evidence), decides=decides)


def _damaged(evidence: Evidence, copy: Copy) -> Cause:
    faults = copy.candidate.faults
    kinds = {f.kind for f in faults}
    lines = [_line(f) for f in faults[:5]]
    main = next((f for f in faults if f.kind in ("mixed-saves", *IMPOSTORS)), None)
    if main is None and kinds & {"unfinished", "metadata-missing"}:
        main = next(f for f in faults if f.kind in ("unfinished", "metadata-missing"))
    slug = BY_KIND.get((main or faults[0]).kind, "damaged-structure")
    if slug == "truncated" and len(faults) > 1 and copy.candidate.folder and kinds & set(HALF):
        slug = "killed-mid-save"
    if slug in ("truncated", "killed-mid-save"):
        full = _disk_was_full(evidence, copy)
        if full:
            return _cause("truncated-by-full-disk", Certainty.CONFIRMED, copy, [*lines, *full])
    return _cause(slug, Certainty.CONFIRMED, copy, lines)


def _line(fault: FaultSeen) -> str:
    return f"{fault.kind}: {fault.file + ': ' if fault.file else ''}{fault.detail}"


def _disk_was_full(evidence: Evidence, copy: Copy) -> list[str]:
    """Words that the disk was, or is, full; empty if nothing says so."""
    found = []
    space = copy.look.space
    if isinstance(space, Known):
        s = space.value
        if s.write in ("ENOSPC", "EDQUOT"):
            found.append(f"a write of 4 KiB to {s.path} fails now with {s.write}")
        elif s.total and s.available < min(copy.candidate.size, 1 << 20):
            found.append(f"{s.available} bytes are available on {s.path}")
    if isinstance(evidence.log, Known):
        for said in meanings(evidence.log.value, FULL).values():
            found.append(f"the job's log says: {said.evidence[0].text[:200]}")
    return found


def _suspect(copy: Copy) -> Cause:
    first = copy.candidate.suspects[0]
    if first.kind == "not-finite":
        return _cause("not-finite", Certainty.CONFIRMED, copy, [_line(f) for f in copy.candidate.suspects[:5]])
    slug = "mixed-saves" if first.kind == "mixed-saves" else "zero-hole"
    decides = ("a manifest with hashes written at save time, or a second copy of the same step to compare with",)
    return _cause(slug, Certainty.LIKELY, copy, [_line(f) for f in copy.candidate.suspects], decides)
