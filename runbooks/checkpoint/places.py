"""Causes that lie in the places: folder, file system, device, memory limit, pointer, unfinished saves."""

import re
from collections.abc import Iterator
from typing import Protocol

from runbooks.checkpoint.choose import CheckpointChoice
from runbooks.checkpoint.copies import whether_it_ends, writer
from runbooks.checkpoint.evidence import Evidence, Space, TierFacts
from runbooks.checkpoint.limits import Limits
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import meanings

DYING = {"dying-device": ("checkpoint-fallback/dying-device",)}
NONE_LEFT = 64 << 10  # a few blocks that no file gets
STALE = {"ENOTCONN": "its FUSE daemon is gone", "ESTALE": "its file server lost the handle", "EIO": "its device fails"}


def place_causes(evidence: Evidence, config: Checkpoints, limits: Limits, choice: CheckpointChoice) -> tuple[Cause, ...]:
    """Everything that is wrong with where checkpoints lie."""
    out: list[Cause] = []
    for look in evidence.tiers:
        if isinstance(look.space, Known):
            out.extend(_space(look, look.space.value, limits))
            out.extend(_memory(config, look, look.space.value))
        out.extend(_pointer(look, choice))
        out.extend(_stalled(evidence, look, limits))
    out.extend(_device(evidence))
    out.extend(_not_everywhere(evidence, config, choice))
    return tuple(out)


def out_of_reach(look: TierFacts) -> str:
    """Why what lies in that folder cannot be seen or read from here; "" if it can, or the folder was not looked at."""
    s = look.space.value if isinstance(look.space, Known) else None
    if s is None:
        return ""
    code = next((x for x in (s.error, s.write) if x in STALE), "")
    if code:
        return f"{code}, {STALE[code]}"
    if not s.exists:
        return f"the folder does not exist, only {s.nearest} does"
    return f"it says {s.error}" if s.error else f"a write says {s.write}" if s.write in ("EACCES", "EPERM") else ""


def newest_size(look: TierFacts) -> int:
    """Bytes of one save, by the largest of the newest candidates."""
    found = look.candidates.value[:5] if isinstance(look.candidates, Known) else ()
    return max((c.size for c in found), default=0)


def _space(look: TierFacts, s: Space, limits: Limits) -> Iterator[Cause]:
    def cause(slug: str, certainty: Certainty, *evidence: str, decides: tuple[str, ...] = ()) -> Cause:
        return Cause(
            slug=slug, certainty=certainty, subject=f"{s.path} on {look.node}", evidence=evidence, decides=decides
        )

    yes = Certainty.CONFIRMED
    if s.error in STALE or s.write in STALE:
        code = s.error if s.error in STALE else s.write
        yield cause("stale-mount" if code != "EIO" else "dying-device", yes, f"{s.path}: {code}, {STALE[code]}")
        return
    if not s.exists:
        yield cause("directory-missing", yes, f"{s.path} does not exist; the deepest folder that does is {s.nearest}")
        return
    if s.read_only or s.write == "EROFS":
        yield cause(
            "read-only", yes, f"{s.device} ({s.fs_type}) at {s.path} is mounted without the right to write (ro); a write says {s.write}"
        )
        return
    if s.write in ("EACCES", "EPERM"):
        words = f"uid {s.asking_uid} cannot write to {s.path}: mode {s.mode:04o}, owner {s.owner} ({s.uid})"
        yield cause("permissions", yes, words)
        return
    if s.error in ("EACCES", "EPERM"):
        yield cause("permissions", yes, f"uid {s.asking_uid} cannot list {s.path}: mode {s.mode:04o}, owner {s.owner}")
        return
    yield from _fullness(look, s, limits, cause)


def _fullness(look: TierFacts, s: Space, limits: Limits, cause: "CauseMaker") -> Iterator[Cause]:
    yes = Certainty.CONFIRMED
    if s.write == "EDQUOT":
        yield cause("quota", yes, f"a write to {s.path} fails with EDQUOT while {sized(s.available)} are available")
    elif s.inodes and s.inodes_free == 0:
        yield cause("inodes-full", yes, f"0 of {s.inodes} inodes are free at {s.path}, {sized(s.available)} are")
    elif s.total and s.available < NONE_LEFT and s.free > newest_size(look) + NONE_LEFT:
        yield cause(
            "reserved-blocks", yes, f"{sized(s.free)} are free at {s.path}, all reserved for root: none is available"
        )
    elif s.write == "ENOSPC" or (s.total and s.available < newest_size(look) * limits.free_saves and newest_size(look)):
        certainty = yes if s.write == "ENOSPC" or s.available < newest_size(look) else Certainty.LIKELY
        words = f"{sized(s.available)} of {sized(s.total)} are available at {s.path}; one save takes {newest_size(look)}"
        yield cause("disk-full", certainty, words, f"a write of 4 KiB says {s.write}")


def _memory(config: Checkpoints, look: TierFacts, s: Space) -> Iterator[Cause]:
    limit = config.tier(look.tier).limit_bytes
    size = newest_size(look)
    if look.kind != TierKind.MEMORY or not size:
        return
    room = min(x for x in (limit, s.total or None) if x is not None) if limit or s.total else 0
    if room and size > room:
        words = f"one snapshot takes {sized(size)}, the limit is {room}"
        subject = f"{s.path} on {look.node}"
        yield Cause(slug="snapshot-over-limit", certainty=Certainty.CONFIRMED, subject=subject, evidence=(words,))


def _pointer(look: TierFacts, choice: CheckpointChoice) -> Iterator[Cause]:
    if not isinstance(look.pointer, Known) or not isinstance(look.candidates, Known):
        return
    text = look.pointer.value.text.rstrip("/").rpartition("/")[2]
    named = [c for c in look.candidates.value if text in (c.name, c.name.rpartition("/")[2], str(c.step))]
    bad = [c for c in named if c.faults or c.content == "damaged" or c.suspects]
    bad = [c for c in bad if f"{look.where.rstrip('/')}/{c.name}" not in {x.where for x in choice.open}]
    if named and not bad:
        return
    what = f"is damaged or unfinished ({bad[0].name})" if bad else "is not there"
    newer = f"; the newest whole one is step {choice.best.candidate.step}" if choice.best else ""
    evidence = (f"`{look.pointer.value.text}` of the pointer {what}{newer}",)
    busy = writer(look, bad[0].name if bad else text)
    sure, decides = (Certainty.LIKELY, (whether_it_ends(busy.pid),)) if busy else (Certainty.CONFIRMED, ())
    yield Cause(slug="pointer-wrong", certainty=sure, subject=look.where, evidence=evidence, decides=decides)


def _stalled(evidence: Evidence, look: TierFacts, limits: Limits) -> Iterator[Cause]:
    if not isinstance(look.holders, Known):
        return
    writing = {h.path.split("/")[0]: h for h in look.holders.value if h.writing}
    for left in look.leftovers:
        age = evidence.taken_at.timestamp() - left.mtime_s
        holder = writing.get(left.name.split("/")[0])
        if holder and age > limits.save_stalled_s:
            words = f"{left.name} is open for writing by pid {holder.pid} and has not grown for {age:.0f} s"
            yield Cause(slug="save-stalled", certainty=Certainty.LIKELY, subject=look.where, evidence=(words,))


def _device(evidence: Evidence) -> Iterator[Cause]:
    if not isinstance(evidence.kernel, Known) or not evidence.kernel.value:
        return
    spaces = [look.space.value for look in evidence.tiers if isinstance(look.space, Known)]
    names = {d for s in spaces for d in (*s.disks, s.device.rpartition("/")[2]) if d and s.device.startswith("/dev/")}
    ours = [x for x in evidence.kernel.value if any(re.search(rf"\b{re.escape(d)}\b", x) for d in names)]
    for said in meanings(ours, DYING).values():
        shown = tuple(x.text[:200] for x in said.evidence[-3:])
        subject = f"storage of {evidence.node}"
        yield Cause(
            slug="dying-device",
            certainty=Certainty.LIKELY,
            subject=subject,
            evidence=shown,
            decides=("smartctl -a, nvme smart-log",),
        )


def _not_everywhere(evidence: Evidence, config: Checkpoints, choice: CheckpointChoice) -> Iterator[Cause]:
    shared = [t for t in evidence.tiers if t.kind == TierKind.S3 or config.tier(t.tier).shared]
    unread = [t.where for t in shared if isinstance(t.candidates, Unknown)]
    for step, nodes in choice.not_everywhere.items():
        there = f"{', '.join(unread)} could not be read" if unread else "no shared tier has it"
        words = f"step {step} is whole on {evidence.node} and not on {', '.join(nodes)}; {there}"
        sure, decides = (Certainty.POSSIBLE, (f"whether {unread[0]} has step {step}",)) if unread else (Certainty.CONFIRMED, ())
        yield Cause(slug="not-shared", certainty=sure, subject=f"step {step}", evidence=(words,), decides=decides)
    for other in evidence.others:
        if isinstance(other.steps, Unknown) and other.steps.reason is not UnknownReason.NOT_ASKED:
            words = f"{other.tier} of {other.node} could not be read: {other.steps.reason}"
            yield Cause(
                slug="not-shared", certainty=Certainty.POSSIBLE, subject=other.node, evidence=(words,),
                decides=(f"the checkpoints on {other.node}",),
            )  # fmt: skip


class CauseMaker(Protocol):
    """Type of the helper that fills in the subject."""

    def __call__(self, slug: str, certainty: Certainty, *words: str, decides: tuple[str, ...] = ()) -> Cause:
        """A cause about the tier."""
        ...
