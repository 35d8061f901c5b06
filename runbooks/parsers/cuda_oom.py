"""Out-of-memory messages of CUDA (torch, old and new wording), of the kernel and of a snapshot limit, as numbers.
Bytes.

A parser, beside the knowledge base that names the cause: the runbook does sums with the numbers of several messages and
with what the GPUs say now."""

import re

from runbooks.core.base import Frozen

UNIT = {
    "bytes": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
SIZE = r"([\d.]+)\s*(bytes|[KMGT]iB|[KMG]B)"
TRIED = re.compile(rf"[Oo]ut of memory\. Tried to allocate {SIZE}")
OLD = re.compile(
    rf"GPU (\d+); {SIZE} total capacity; {SIZE} already allocated; {SIZE} free; {SIZE} (?:reserved in total|cached)"
)
NEW = re.compile(rf"GPU (\d+) has a total capaci?ty of {SIZE} of which {SIZE} is free")
MINE = re.compile(rf"this process has {SIZE} memory in use")
OTHER = re.compile(rf"Process (\d+) has {SIZE} memory in use")
ALLOCATED = re.compile(rf"Of the allocated memory {SIZE} is allocated by PyTorch")
UNUSED = re.compile(rf"{SIZE} is reserved by PyTorch but unallocated")
RANK = re.compile(r"\[?rank\s?(\d+)\]?", re.IGNORECASE)
KILLED = re.compile(
    r"(Memory cgroup out of memory|Out of memory): Killed process (\d+) \(([^)]*)\)(?:.*?anon-rss:(\d+)kB)?"
)
SNAPSHOT = re.compile(rf"MemoryLimitExceeded: Cannot save snapshot: {SIZE} required, but only {SIZE} available")


class OtherUser(Frozen):
    """Another process that the message names."""

    pid: int
    bytes: int


class CudaOom(Frozen):
    """One message. None where its wording does not say."""

    gpu: int
    tried: int
    total: int
    free: int
    mine: int  # held by the process that failed, its CUDA context included where the message says so
    allocated: int
    unused: int  # reserved by torch and not allocated
    others: tuple[OtherUser, ...] = ()
    rank: int | None = None
    text: str = ""

    @property
    def elsewhere(self) -> int:
        """Held outside of this process, by the message's own arithmetic."""
        return max(0, self.total - self.free - self.mine)


class HostOom(Frozen):
    """A process that the kernel killed."""

    pid: int
    name: str
    rss: int
    cgroup: bool


class SnapshotOom(Frozen):
    """A snapshot that did not fit its limit."""

    needed: int
    available: int


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * UNIT[unit])


def parse_cuda_ooms(text: str) -> tuple[CudaOom, ...]:
    """Every CUDA message that carries its numbers, in order."""
    return tuple(m for m in map(_one, text.splitlines()) if m is not None)


def _one(line: str) -> CudaOom | None:
    tried = TRIED.search(line)
    if tried is None:
        return None
    rank = RANK.search(line[: tried.start()])
    base = {"tried": _bytes(*tried.groups()), "rank": int(rank[1]) if rank else None, "text": line.strip()[:600]}
    old, new = OLD.search(line), NEW.search(line)
    if old is not None:
        total, allocated, free, reserved = (_bytes(old[i], old[i + 1]) for i in (2, 4, 6, 8))
        return CudaOom(
            gpu=int(old[1]),
            total=total,
            free=free,
            mine=reserved,
            allocated=allocated,
            unused=reserved - allocated,
            **base,
        )
    if new is None:
        return None
    mine, allocated, unused = (_sized(p, line) for p in (MINE, ALLOCATED, UNUSED))
    others = tuple(OtherUser(pid=int(m[1]), bytes=_bytes(m[2], m[3])) for m in OTHER.finditer(line))
    total, free = _bytes(new[2], new[3]), _bytes(new[4], new[5])
    return CudaOom(
        gpu=int(new[1]), total=total, free=free, mine=mine, allocated=allocated, unused=unused, others=others, **base
    )


def _sized(pattern: re.Pattern[str], line: str) -> int:
    found = pattern.search(line)
    return _bytes(found[1], found[2]) if found else 0


def parse_host_ooms(text: str) -> tuple[HostOom, ...]:
    """Processes killed by the kernel for memory."""
    return tuple(
        HostOom(pid=int(m[2]), name=m[3], rss=int(m[4] or 0) * 1024, cgroup=m[1].startswith("Memory cgroup"))
        for m in KILLED.finditer(text)
    )


def parse_snapshot(text: str) -> SnapshotOom | None:
    """The last snapshot that did not fit."""
    found = next(reversed(list(SNAPSHOT.finditer(text.replace("MB", " MB")))), None)
    return SnapshotOom(needed=_bytes(found[1], found[2]), available=_bytes(found[3], found[4])) if found else None
