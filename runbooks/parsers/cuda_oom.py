"""Out-of-memory messages of CUDA (torch 0.4 to 2.x) and of a snapshot limit, as numbers. Bytes.

The third size of the old wording changed its meaning with its word: "cached" (torch up to 1.3) is what is kept and unused, "reserved
in total" (from 1.4 on) is all of it. From 2.1 on the message names processes by the driver's numbers: inside a container its own
process stands among the others.

`who_fills` is the one judge of these sums: the runbook asks it, which reads more than one message, and so do the signatures of
the causes (`fills(oom)` in their conditions)."""

import re
from typing import Any, Protocol

from runbooks.core.base import Frozen

UNIT = {
    "bytes": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}
BESIDE_TORCH = 4 << 30  # a process holds a context, cuBLAS and NCCL beside what torch reserves: 0.5 to 3 GiB were seen
SIZE = r"(-?\d{1,20}(?:\.\d{1,20})?)\s*(bytes|[KMGT]iB|[KMG]B)"
TRIED = re.compile(rf"out of memory\. Tried to allocate {SIZE}", re.IGNORECASE)
ASKED = re.compile(rf"tried to allocate {SIZE}", re.IGNORECASE)
OLD = re.compile(
    rf"GPU (\d+); {SIZE} total capacity; {SIZE} already allocated; {SIZE} free; (?:{SIZE} allowed; )?{SIZE} (reserved in total|cached)",
    re.IGNORECASE,
)
NEW = re.compile(rf"GPU (\d+) has a total capaci?ty of {SIZE} of which {SIZE} is free", re.IGNORECASE)
MINE = re.compile(rf"this process has {SIZE} memory in use", re.IGNORECASE)
OTHER = re.compile(rf"Process (\d+) has {SIZE} memory in use", re.IGNORECASE)
ALLOCATED = re.compile(rf"Of the allocated memory {SIZE} is allocated by PyTorch", re.IGNORECASE)
UNUSED = re.compile(rf"{SIZE} is reserved by PyTorch but unallocated", re.IGNORECASE)
RANK = re.compile(r"\[?rank\s?(\d+)\]?", re.IGNORECASE)
ALLOWED = re.compile(rf"{SIZE} allowed;", re.IGNORECASE)
SNAPSHOT = re.compile(rf"MemoryLimitExceeded: Cannot save snapshot: {SIZE} required, but only {SIZE} available")


class OtherUser(Frozen):
    """Another process that the message names."""

    pid: int
    bytes: int


class CudaOom(Frozen):
    """One message. None where its wording does not say."""

    gpu: int
    tried: int  # 0 in a piece of a message that does not say it
    total: int
    free: int
    mine: int  # held by the process that failed, its CUDA context included where the message says so
    allocated: int
    unused: int  # reserved by torch and not allocated
    others: tuple[OtherUser, ...] = ()
    own: OtherUser | None = None  # the one of them that is this process, under the driver's number for it
    allowed: int | None = None  # the process's own limit (set_per_process_memory_fraction)
    rank: int | None = None
    text: str = ""

    @property
    def elsewhere(self) -> int:
        """Held outside of this process, by the message's own arithmetic."""
        return max(0, self.total - self.free - self.mine)

    @property
    def fits_in_pieces(self) -> bool:
        """Whether what is free and what torch keeps unused are enough together: the memory is there, and not in one piece."""
        return 0 < self.tried <= self.free + self.unused

    @property
    def fits_alone(self) -> bool:
        """Whether the GPU would do for what this process uses and asks for, if nobody else held any of it."""
        return self.tried + self.mine - self.unused <= self.total

    @property
    def impossible(self) -> bool:
        """Whether the numbers cannot all be true."""
        sizes = (self.tried, self.total, self.free, self.mine, self.allocated, self.unused)
        return min(sizes) < 0 or max(self.free, self.mine, self.allocated) > self.total


class Shares(Protocol):
    """What counts as much, as memory-pressure's limits say it."""

    @property
    def elsewhere_share(self) -> float:
        """Of the GPU."""

    @property
    def elsewhere_bytes(self) -> int:
        """At least."""

    @property
    def fragment_share(self) -> float:
        """Of the GPU."""


class SnapshotOom(Frozen):
    """A snapshot that did not fit its limit."""

    needed: int
    available: int


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * UNIT[unit.lower()])


def who_fills(oom: CudaOom, limits: Shares) -> str:
    """The cause that the numbers of this one message name, by its slug in memory-pressure; "" where a piece of one names none.

    Numbers that contradict a lack of memory come first: with them no cause of a lack is true."""
    if oom.impossible:
        return "numbers-contradict"
    if oom.allowed is not None and oom.allocated + oom.tried > oom.allowed:
        return "own-limit"
    if 0 < oom.tried <= oom.free:
        return "numbers-contradict"
    if oom.tried <= oom.total and oom.elsewhere > max(limits.elsewhere_share * oom.total, limits.elsewhere_bytes):
        return "gpu-held-by-others"
    if in_pieces(oom, limits):
        return "fragmented"
    return "model-too-large" if oom.tried or oom.free < oom.mine else ""


def in_pieces(oom: CudaOom, limits: Shares) -> bool:
    """Whether it failed for want of one piece: much is kept unused, and with what is free it is enough."""
    return oom.fits_in_pieces and oom.unused > limits.fragment_share * oom.total


def parse_cuda_ooms(text: str) -> tuple[CudaOom, ...]:
    """Every CUDA message that carries its numbers, in order."""
    return tuple(m for m in map(_one, text.splitlines()) if m is not None)


def _one(line: str) -> CudaOom | None:
    tried = TRIED.search(line)
    if tried is None:
        return None
    rank = RANK.search(line[: tried.start()])
    return _numbers(line, {"tried": _bytes(*tried.groups()), "rank": int(rank[1]) if rank else None, "text": line.strip()[:600]})


def parse_piece(text: str) -> CudaOom | None:
    """A message, or the piece of one that a person quotes: it need not say what was asked for. Any case."""
    return _numbers(text, {"tried": _sized(ASKED, text)})


def _numbers(line: str, base: dict[str, Any]) -> CudaOom | None:
    old, new = OLD.search(line), NEW.search(line)
    if old is not None:
        return _old(old, base)
    return _new(new, line, base) if new is not None else None


def _old(old: "re.Match[str]", base: dict[str, Any]) -> CudaOom:
    total, allocated, free, kept = (_bytes(old[i], old[i + 1]) for i in (2, 4, 6, 10))
    reserved = allocated + kept if old[12].lower() == "cached" else kept
    allowed = _bytes(old[8], old[9]) if old[8] else None
    return CudaOom(gpu=int(old[1]), total=total, free=free, mine=reserved, allocated=allocated, unused=reserved - allocated,
                   allowed=allowed, **base)  # fmt: skip


def _new(new: "re.Match[str]", line: str, base: dict[str, Any]) -> CudaOom:
    mine, allocated, unused = (_sized(p, line) for p in (MINE, ALLOCATED, UNUSED))
    others = tuple(OtherUser(pid=int(m[1]), bytes=_bytes(m[2], m[3])) for m in OTHER.finditer(line))
    own = None if mine else _own(others, allocated + unused)
    return CudaOom(
        gpu=int(new[1]), total=_bytes(new[2], new[3]), free=_bytes(new[4], new[5]), allocated=allocated, unused=unused,
        mine=own.bytes if own else max(mine, allocated + unused), own=own, others=tuple(o for o in others if o is not own),
        allowed=_sized(ALLOWED, line) or None, **base,
    )  # fmt: skip


def _own(others: tuple[OtherUser, ...], reserved: int) -> OtherUser | None:
    """The process itself, which the driver names by a number that it does not know: the smallest that holds what torch reserved."""
    fit = [o for o in others if 0.99 * reserved <= o.bytes <= reserved + BESIDE_TORCH] if reserved else []  # two digits are printed
    return min(fit, key=lambda o: o.bytes) if fit else None


def _sized(pattern: re.Pattern[str], line: str) -> int:
    found = pattern.search(line)
    return _bytes(found[1], found[2]) if found else 0


def parse_snapshot(text: str) -> SnapshotOom | None:
    """The last snapshot that did not fit."""
    found = next(reversed(list(SNAPSHOT.finditer(text.replace("MB", " MB")))), None)
    return SnapshotOom(needed=_bytes(found[1], found[2]), available=_bytes(found[3], found[4])) if found else None
