"""How long to wait before the next recreation, and when to stop. Counts deaths by container id and end time."""

from collections.abc import Iterable
from datetime import datetime, timedelta

KEPT = ".dead-"  # a dead container that was replaced is kept as NAME.dead-<12 digits of its id>


def kept_name(name: str, container_id: str) -> str:
    """Under which name a replaced container is kept."""
    return f"{name}{KEPT}{container_id[:12]}"


def is_kept(name: str, of: str) -> bool:
    """True if `name` is what a replaced container `of` is kept under."""
    return name.startswith(of + KEPT)


def recent(deaths: Iterable[datetime], now: datetime, window_s: float) -> tuple[datetime, ...]:
    """Deaths within the window before `now`, oldest first, each once (to the second: two records of one death)."""
    since = now - timedelta(seconds=window_s)
    kept: list[datetime] = []
    for at in sorted(deaths):
        if at >= since and (not kept or (at - kept[-1]).total_seconds() > 1):
            kept.append(at)
    return tuple(kept)


def delay_s(deaths: int, base_s: float, cap_s: float) -> float:
    """Wait before recreating after that many deaths in the window: none after one, then base, doubled each time."""
    return 0.0 if deaths <= 1 else min(cap_s, base_s * 2.0 ** min(deaths - 2, 30))
