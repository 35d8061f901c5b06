"""The minutes before a death as the watch recorded them: memory, disk and CPU in words."""

from collections.abc import Sequence
from datetime import datetime

from runbooks.core.base import Frozen

LONGEST_S = 900.0  # design: how far back it is told; no verdict turns on it


class Sample(Frozen):
    """One reading of the watch: the machine, and the container while it ran."""

    at: datetime
    memory_total_bytes: int
    memory_available_bytes: int
    load: float
    disk_free_bytes: dict[str, int] = {}
    own_memory_bytes: int | None = None  # without cache
    own_limit_bytes: int | None = None
    own_cpu_s: float | None = None  # since its start


def story(samples: Sequence[Sample], end: datetime | None) -> tuple[str, ...]:
    """First and last value of each quantity in the minutes before `end`, largest changes included. () without two."""
    part = [s for s in samples if end is None or 0 <= (end - s.at).total_seconds() <= LONGEST_S]
    if len(part) < 2:
        return ()
    first, last = part[0], part[-1]
    span = (last.at - first.at).total_seconds()
    left = f"{(end - last.at).total_seconds():.0f} s before the end" if end else "last"
    lines = [f"the watch has {len(part)} samples over {span:.0f} s, the last one {left}"]
    lines += [_own_memory(part), _own_cpu(part)]
    low = min(s.memory_available_bytes for s in part)
    lines.append(f"memory available on the host: {_mib(first.memory_available_bytes)}, lowest {_mib(low)}, "
                 f"at the end {_mib(last.memory_available_bytes)} of {_mib(last.memory_total_bytes)}")  # fmt: skip
    lines += _disks(first, last)
    lines.append(
        f"load of the host: {first.load:.1f}, highest {max(s.load for s in part):.1f}, at the end {last.load:.1f}"
    )
    return tuple(x for x in lines if x)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def _own_memory(part: Sequence[Sample]) -> str:
    own = [s for s in part if s.own_memory_bytes is not None]
    if not own:
        return ""
    peak, last = max(s.own_memory_bytes or 0 for s in own), own[-1]
    limit = last.own_limit_bytes or 0
    of = f" of {_mib(limit)}" if 0 < limit < last.memory_total_bytes else ""
    return f"its memory: {_mib(own[0].own_memory_bytes or 0)}, peak {_mib(peak)}, at the end {_mib(last.own_memory_bytes or 0)}{of}"


def _own_cpu(part: Sequence[Sample]) -> str:
    own = [s for s in part if s.own_cpu_s is not None]
    if len(own) < 2 or (own[-1].own_cpu_s or 0) < (own[0].own_cpu_s or 0):
        return ""
    span = (own[-1].at - own[0].at).total_seconds()
    used = (own[-1].own_cpu_s or 0) - (own[0].own_cpu_s or 0)
    return f"its CPU: {used:.1f} s used in {span:.0f} s" if span > 0 else ""


def _disks(first: Sample, last: Sample) -> list[str]:
    both = sorted(set(first.disk_free_bytes) & set(last.disk_free_bytes))
    return [f"free on {p}: {_mib(first.disk_free_bytes[p])}, at the end {_mib(last.disk_free_bytes[p])}" for p in both]
