"""How long a rank may stand still in a collective before its own torch ends it: as the fleet file gives it, else by torch's version."""

from functools import cache

from runbooks.core.knowledge import load_table
from runbooks.gpu.evidence import Process
from runbooks.gpu.view import GpuView


@cache
def _rows() -> tuple[tuple[tuple[int, ...], float], ...]:
    return tuple((_number(row["from"]), float(row["value"])) for row in load_table("torch")["spin_s"])


def _number(version: str) -> tuple[int, ...]:
    """The first two parts: (2, 8) of 2.8.0+cu128; () of what is no version."""
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if len(parts) == 2 and all(p.isdecimal() for p in parts) else ()


def wait_s(view: GpuView, p: Process) -> float | None:
    """Seconds. None: not known, because no torch of it was seen."""
    if view.limits.spin_s > 0:
        return view.limits.spin_s
    return next((value for first, value in _rows() if _number(p.torch) >= first), None) if p.torch else None


def longest_wait_s(view: GpuView) -> float:
    """Seconds, of every version that is known: what stands for a process of which it is not."""
    return view.limits.spin_s or max(value for _, value in _rows())
