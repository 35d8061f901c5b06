"""Causes that lie in the checkpoints themselves: each fault by what it means and where it usually comes from."""

from collections.abc import Iterable

from runbooks.checkpoint.copies import Copy, all_copies, whether_it_ends, writer
from runbooks.checkpoint.evidence import Evidence, FaultSeen
from runbooks.checkpoint.limits import Limits
from runbooks.checkpoint.parsers.needs import to_be_escaped
from runbooks.checkpoint.places import out_of_reach
from runbooks.checkpoint.together import SaveStanding, Together, together
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.reading import Known
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import meanings

CUT = ("truncated", "tiny", "empty")
IMPOSTORS = ("lfs-pointer", "html", "xml-error", "json-error", "not-a-checkpoint")
HALF = ("unfinished", "metadata-missing", "shard-missing", "part-missing", "manifest-missing-file")
STRUCTURE = (
    "zip-structure", "member-missing", "member-extra", "storage-size", "byteorder", "version", "pickle", "header", "shard-size",
)  # fmt: skip
BY_KIND = {
    "trailing-bytes": "extra-bytes", "prepended-bytes": "extra-bytes", "crc": "bit-flip", "hash": "bit-flip",
    "zero-hole": "zero-hole", "all-zero": "zero-hole", "mixed-saves": "mixed-saves", "keys-missing": "missing-keys",
    "step-mismatch": "wrong-step", "not-finite": "not-finite",
    "world-size": "world-size-differs", "unreadable": "unreadable", "manifest-size": "truncated",
    **dict.fromkeys(HALF, "killed-mid-save"), **dict.fromkeys(IMPOSTORS, "not-a-checkpoint"),
    **dict.fromkeys(CUT, "truncated"), "metadata-damaged": "truncated",
    **dict.fromkeys(STRUCTURE, "damaged-structure"),
}  # fmt: skip
FULL = {"full": tuple(f"checkpoint-fallback/{slug}" for slug in ("truncated-by-full-disk", "disk-full", "quota"))}


BY_LIMIT = {
    "unreadable": "unreadable", "beyond-reader": "beyond-reader", "unread-format": "other-format",
    "unknown-format": "other-format", "uncommitted": "rename-missing",
}  # fmt: skip
SAID = 3  # checkpoints of one limit that are named


def candidate_causes(evidence: Evidence, config: Checkpoints, limits: Limits) -> tuple[Cause, ...]:
    """One cause per damaged checkpoint (its first fault decides), newest first; archived ones and what was not seen too."""
    out: list[Cause] = []
    for copy in all_copies(evidence):
        c = copy.candidate
        if c.archived:
            words = f"{copy.where}: storage class {c.archived}" + (", a restore is going on" if c.restoring else "")
            out.append(_cause("archived", Certainty.CONFIRMED, copy, [words]))
        elif c.faults:
            joined = together(evidence, config, copy)
            out.append(_in_parts(copy, joined, limits) or _damaged(evidence, copy, joined))
        elif c.limits:
            slug = BY_LIMIT.get(c.limits[0].kind, "beyond-reader")  # one that this version does not know
            if sum(known.slug == slug for known in out) < SAID:
                out.append(_limited(evidence, copy, slug, limits))
        elif c.suspects:
            out.append(_suspect(copy))
    return tuple(out)


def _cause(
    slug: str, certainty: Certainty, copy: Copy, evidence: Iterable[str], decides: tuple[str, ...] = ()
) -> Cause:
    """Nothing is confirmed of what a process still writes: it may be whole when that ends."""
    busy = writer(copy.look, copy.candidate.name)
    if busy and certainty is Certainty.CONFIRMED:
        certainty, decides = Certainty.LIKELY, (whether_it_ends(busy.pid), *decides)
    return Cause(slug=slug, certainty=certainty, subject=copy.where, evidence=tuple(evidence), decides=decides)


def _in_parts(copy: Copy, joined: Together, limits: Limits) -> Cause | None:
    """The save is, or may be, whole over several hosts."""
    lines = [joined.words, *(_line(f) for f in copy.candidate.faults[:2])]
    if joined.standing is SaveStanding.COMPLETE and joined.apart_s <= limits.one_save_s:
        return _cause("parts-on-hosts", Certainty.CONFIRMED, copy, lines)
    if joined.standing is SaveStanding.COMPLETE:
        ask = "whether the parts are of one save: they were written at different times"
        return _cause("parts-on-hosts", Certainty.LIKELY, copy, lines, (ask,))
    if joined.standing is SaveStanding.UNREAD:
        decides = tuple(f"the files of {copy.candidate.name} on {host}" for host in joined.unread[:5])
        return _cause("part-elsewhere", Certainty.POSSIBLE, copy, lines, decides)
    if joined.standing is SaveStanding.ELSEWHERE:
        lines.append("all that lacks is of ranks that have no file here, as if they had saved to another host's disk")
        decides = ("the same folder on the hosts of the other ranks: name them as nodes of the fleet",)
        return _cause("part-elsewhere", Certainty.LIKELY, copy, lines, decides)
    return None


def _limited(evidence: Evidence, copy: Copy, slug: str, limits: Limits) -> Cause:
    """Nothing speaks against it; its reader could not see all of it."""
    lines = [_line(f) for f in copy.candidate.limits[:3]]
    if slug == "unreadable":
        return _unreadable(copy, lines)
    if slug == "rename-missing":
        return _renamed(evidence, copy, lines, limits)
    return _cause(slug, Certainty.POSSIBLE, copy, lines, ("a load of it by the job's own library, in a process of its own",))


def _unreadable(copy: Copy, lines: list[str]) -> Cause:
    """It could not be read; where its folder does not answer or lets nobody in, that may be all of it."""
    away = out_of_reach(copy.look)
    decides = (f"a read of it when its folder is well: {away}",) if away else ()
    return _cause("unreadable", Certainty.LIKELY if away else Certainty.CONFIRMED, copy, lines, decides)


def _renamed(evidence: Evidence, copy: Copy, lines: list[str], limits: Limits) -> Cause:
    """All is there but the marker's final name; a save that goes on would look the same for a moment."""
    odd = to_be_escaped(copy.where.partition("://")[2])
    if odd:  # a folder's rename does not care
        lines.append(f"its path has {' '.join(repr(x) for x in odd)}: a copy inside the store that does not escape it names another object")
    age = evidence.taken_at.timestamp() - copy.candidate.mtime_s
    if age < limits.save_stalled_s:
        decides = (f"whether the save still goes on: its newest file is {age:.0f} s old",)
        return _cause("rename-missing", Certainty.LIKELY, copy, lines, decides)
    return _cause("rename-missing", Certainty.CONFIRMED, copy, lines)


def _damaged(evidence: Evidence, copy: Copy, joined: Together) -> Cause:
    faults = copy.candidate.faults
    kinds = {f.kind for f in faults}
    lines = [_line(f) for f in faults[:5]]
    if joined.standing is SaveStanding.GONE and len(joined.hosts) > 1:
        lines.append(f"over all hosts: {joined.words}")
    main = next((f for f in faults if f.kind in ("mixed-saves", *IMPOSTORS)), None)
    if main is None and kinds & {"unfinished", "metadata-missing"}:
        main = next(f for f in faults if f.kind in ("unfinished", "metadata-missing"))
    kind = (main or faults[0]).kind
    slug = BY_KIND.get(kind, "damaged-structure")
    if slug == "truncated" and len(faults) > 1 and copy.candidate.folder and kinds & set(HALF):
        slug = "killed-mid-save"
    if slug in ("truncated", "killed-mid-save") or kind == "all-zero":
        full = _disk_was_full(evidence, copy)
        if full:
            return _cause("truncated-by-full-disk", Certainty.CONFIRMED, copy, [*lines, *full])
        if kind == "all-zero" and not isinstance(copy.look.space, Known):
            return _cause(slug, Certainty.LIKELY, copy, lines, ("whether the disk was full: its space was not read",))
    if slug == "unreadable":
        return _unreadable(copy, lines)
    if kind not in BY_KIND:  # a record of another version
        return _cause(slug, Certainty.LIKELY, copy, lines, (f"what “{kind}” means: this version does not know it",))
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
            found.append(f"{sized(s.available)} are available on {s.path}")
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
