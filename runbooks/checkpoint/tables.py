"""What a person looks at of a job's checkpoints: each step on each tier with what its check found, and the tiers."""

from collections.abc import Iterator

from runbooks.checkpoint.copies import Copy, all_copies, writer
from runbooks.checkpoint.evidence import Candidate, Evidence, TierFacts
from runbooks.core.reading import Known, Unknown, value_of, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, since, spark, table

CONTENT = {"proven": "content proven", "unprovable": "has no checksums", "damaged": "content DAMAGED", "not-read": "content not read"}


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The checkpoints first: those with a fault, then the newest."""
    yield table("Checkpoints", "step | tier | check | name | size | format | saved ago", (_copy(c, e) for c in all_copies(e)))
    yield table("Tiers", "tier | kind | where | checkpoints | free | full | pointer | answer", map(_tier, e.tiers))
    yield table("Processes with files of a tier open", "pid | tier | writes | path | command", (
        row(h.pid, look.tier, h.writing, h.path, h.command, about=f"pid {h.pid}", worse=h.writing)
        for look in e.tiers for h in value_or(look.holders, ())
    ))  # fmt: skip
    yield table("Left over", "name | tier | size | left by | was to be", (
        row(left.name, look.tier, size(left.size), left.doing, left.was, about=f"{look.where.rstrip('/')}/{left.name}", worse=left.size)
        for look in e.tiers for left in look.leftovers
    ))  # fmt: skip
    yield table("Unfinished uploads", "key | tier | begun ago | newest part ago | parts | size", (
        row(u.key, look.tier, since(u.begun_s_ago), since(u.newest_part_s_ago), u.parts, size(u.bytes), worse=u.begun_s_ago)
        for look in e.tiers for u in value_or(look.uploads, ())
    ))  # fmt: skip
    yield table("Other nodes", "node | tier | whole steps | parts of", (
        row(o.node, o.tier, counted(map(str, o.steps.value)) or "none" if isinstance(o.steps, Known) else "not read",
            counted(str(c.step) for c in o.parts), about=o.node, worse=not isinstance(o.steps, Known))
        for o in e.others
    ))  # fmt: skip


def _copy(c: Copy, e: Evidence) -> EvidenceRow:
    one = c.candidate
    held = writer(c.look, one.name)
    told = f"being written by pid {held.pid}" if held else _check(one)
    bad = 2.0 if one.faults else 1.0 if not one.whole else 0.0
    age = since(max(0.0, e.taken_at.timestamp() - one.mtime_s)) if one.mtime_s else ""
    cells = (one.step, c.look.tier, told, one.name, size(one.size), one.format, age)
    return row(*cells, about=(c.where, f"step {one.step}"), worse=bad)


def _check(c: Candidate) -> str:
    """The verdict of its check, with the first thing that speaks against it."""
    if c.faults:
        more = f" and {len(c.faults) - 1} more" if len(c.faults) > 1 else ""
        return f"NOT WHOLE: {c.faults[0].detail}{more}"
    if c.archived:
        return f"archived ({c.archived}){', being restored' if c.restoring else ''}"
    if c.limits:
        return f"not wholly checked: {c.limits[0].detail}"
    return f"whole, {CONTENT[c.content]}" if c.whole else CONTENT[c.content]


def _tier(look: TierFacts) -> EvidenceRow:
    space, found = value_of(look.space), look.candidates
    share = 100 * (1 - space.available / space.total) if space and space.total else None
    store = value_of(look.store)
    answer = f"{space.write}{' ' + space.error if space.error else ''}" if space else store.list_code if store else _why(look)
    pointer = value_of(look.pointer)
    cells = (
        look.tier, look.kind, f"{look.node}:{look.where}" if look.node else look.where,
        len(found.value) if isinstance(found, Known) else "not read", size(space.available) if space else "",
        spark([share], "%", 100.0), pointer and pointer.text, answer,
    )  # fmt: skip
    names = (look.where, f"{space.path} on {look.node}") if space else (look.where,)
    return row(*cells, about=names, worse=(share or 0.0) + 1000 * (not isinstance(found, Known)))


def _why(look: TierFacts) -> str:
    return next((r.why for r in (look.space, look.store, look.candidates) if isinstance(r, Unknown)), "")
