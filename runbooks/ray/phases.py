"""Which phase a job's start is in, how far, and how long nothing new was written. Pure."""

import re
from collections.abc import Sequence
from functools import cache

from runbooks.core.base import Frozen
from runbooks.core.knowledge import load_table
from runbooks.core.ray_config import StartPhase


class PhaseReached(Frozen):
    """The last phase that was reached."""

    index: int
    phase: StartPhase
    line: str  # the line that showed it
    percent: int | None = None  # where the pattern gives one


@cache
def default_phases() -> tuple[StartPhase, ...]:
    """The set for a training job with an inference engine."""
    return tuple(StartPhase(**row) for row in load_table("ray_phases")["phases"])


def reached(lines: Sequence[str], phases: Sequence[StartPhase]) -> PhaseReached | None:
    """The furthest phase that any line shows, with the last line that shows it; None before the first."""
    found: PhaseReached | None = None
    for line in lines:
        for i, phase in enumerate(phases):
            match = re.search(phase.pattern, line)
            if match and (found is None or i >= found.index):
                groups = [g for g in match.groups() if g and g.isdecimal()]
                found = PhaseReached(index=i, phase=phase, line=line[:200], percent=int(groups[0]) if groups else None)
    return found


def is_silent(where: PhaseReached, phases: Sequence[StartPhase]) -> bool:
    """True if silence is normal now: the phase prints nothing, or it is complete and the next one prints nothing."""
    if where.phase.silent:
        return True
    following = phases[where.index + 1 :]
    return where.percent == 100 and bool(following) and following[0].silent


def late_after_s(where: PhaseReached, phases: Sequence[StartPhase]) -> float:
    """Silence longer than this is late: the sum of the silent phases that may be running unseen."""
    if not is_silent(where, phases):
        return where.phase.late_s
    rest = phases[where.index if where.phase.silent else where.index + 1 :]
    total = 0.0
    for phase in rest:
        if not phase.silent:
            break
        total += phase.late_s
    return total
