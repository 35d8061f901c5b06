"""Which kills for memory a look is about: in a sweep those since the last one, else those near the log's end or this look, and those of a
process that the log names. Pure."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from runbooks.core.reading import Known
from runbooks.core.sizes import size
from runbooks.core.times import utc
from runbooks.core.verdict import Finding
from runbooks.memory.evidence import Evidence
from runbooks.memory.parsers.kernel_ooms import HostOom
from runbooks.memory.parsers.named_pid import names_pid
from runbooks.triage.text import error_lines

if TYPE_CHECKING:
    from runbooks.memory.limits import Limits

AHEAD = timedelta(hours=1)  # a kernel's clock drifts by seconds an hour: a time further ahead of the look is wrong
MOST = 5  # kills of another time, kill_words one by one


def kills(evidence: Evidence) -> tuple[HostOom, ...]:
    """All that the kernel log names. A time after this look is none: the log's clock is wrong."""
    found, latest = evidence.killed.value if isinstance(evidence.killed, Known) else (), evidence.taken_at + AHEAD
    return tuple(k.model_copy(update={"at": None}) if k.at and k.at > latest else k for k in found)


def within(evidence: Evidence, limits: "Limits") -> tuple[HostOom, ...]:
    """Those of the time that is asked about. By hand one without a time may be of it; a sweep cannot tell (`undated`)."""
    return tuple(k for k in kills(evidence) if not _elsewhen(evidence, k, limits) and (k.at or not evidence.since))


def undated(evidence: Evidence) -> tuple[str, ...]:
    """In a sweep: kills of which nobody knows whether they are news."""
    found = [k for k in kills(evidence) if k.at is None] if evidence.since else []
    return tuple(f"when {_what(k)}: its log carries no times" for k in found[-MOST:])


def starts(evidence: Evidence, limits: "Limits") -> datetime:
    """From when on a kill is of the time that is asked about."""
    if evidence.since:
        return evidence.since - timedelta(seconds=limits.kill_drift_s)
    last, reach = _moment(evidence, limits)
    return last - timedelta(seconds=reach)


def apart(evidence: Evidence, kill: HostOom) -> float | None:
    """Seconds between a kill and the end of the log, or this look; None: it has no time."""
    last = evidence.log.value.written_at if isinstance(evidence.log, Known) else None
    return abs(((last or evidence.taken_at) - kill.at).total_seconds()) if kill.at else None


def named(evidence: Evidence, kill: HostOom) -> str:
    """The last line of the job's log that reports a failure of the very process that the kernel killed; "" where none does.

    The number is the machine's: inside a container the job's own is another, and after long a number is given out again."""
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    if log is None or not log.killed or evidence.since or kill.pid is None:
        return ""
    return next((line for line in reversed(error_lines("\n".join(log.words))) if names_pid(line, kill.pid)), "")


def near(evidence: Evidence, kill: HostOom, limits: "Limits") -> bool:
    """Whether a kill is of the log's end, or of this look."""
    gap = apart(evidence, kill)
    return gap is not None and gap <= limits.kill_near_s


def span(seconds: float) -> str:
    """How long, in the largest unit of which there are two."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def kill_words(kill: HostOom) -> str:
    """A kill with its time."""
    when = f"{utc(kill.at)}: " if kill.at else ""
    return f"{when}{_what(kill)}" + (f", which held {size(kill.rss)}" if kill.rss else "")


def _what(kill: HostOom) -> str:
    if kill.pid is None:
        asked = f" ({kill.asked} asked for memory)" if kill.asked else ""
        return f"the kernel's OOM killer was invoked{asked}, and its log does not name whom it killed"
    return f"the kernel killed pid {kill.pid} ({kill.name})"


def others(evidence: Evidence, limits: "Limits") -> tuple[Finding, ...]:
    """Kills of another time: listed with their dates, and no part of the verdict."""
    found = [k for k in kills(evidence) if _elsewhen(evidence, k, limits)]
    left = (f"{len(found) - MOST} more before these",) if len(found) > MOST else ()
    lines = (*left, *(f"{kill_words(k)} ({_where(evidence, k)})" for k in found[-MOST:]))
    action = "Nothing, unless you ask about that time."
    return tuple(Finding(priority="LOW", category="memory/another-time", issue=x, action=action) for x in lines)


def _moment(evidence: Evidence, limits: "Limits") -> tuple[datetime, float]:
    """The moment that is asked about by hand, and how far from it a kill may be."""
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    last = log.written_at if log and log.written_at else evidence.taken_at
    return last, limits.kill_near_s if log and log.killed else limits.kill_old_s


def _elsewhen(evidence: Evidence, kill: HostOom, limits: "Limits") -> bool:
    if kill.at is None:
        return False
    if evidence.since:
        return kill.at < starts(evidence, limits)
    last, reach = _moment(evidence, limits)
    before = (last - kill.at).total_seconds()
    if -limits.kill_near_s <= before <= limits.kill_old_s and named(evidence, kill):
        return False
    return abs(before) > reach


def _where(evidence: Evidence, kill: HostOom) -> str:
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    last = log.written_at if log and log.written_at else evidence.taken_at
    side = "before" if kill.at and kill.at < last else "after"
    return f"{span(apart(evidence, kill) or 0.0)} {side} {'the end of its log' if log and log.written_at else 'this look'}"
