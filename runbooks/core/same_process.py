"""Whether two sources mean one process. A number is given out again, and each machine and PID namespace has its own. Pure."""

from enum import StrEnum

from runbooks.core.base import Frozen

MACHINE = 0xEFFFFFFC
"""Inode of a machine's own PID namespace: PROC_PID_INIT_INO of Linux (include/linux/proc_ns.h), since 3.8. The kernel log and the
NVIDIA driver give numbers of this one."""


class Same(StrEnum):
    """The answer. Only *yes* is a match; *unknown* is none, and rules out nothing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Numbered(Frozen):
    """A process as one source names it. Times are Unix seconds of its machine's clock; None: the source does not tell."""

    pid: int
    host: str = ""  # of its machine, the same kind of name on both sides; "": not told
    namespace: int | None = None  # inode of the PID namespace in which the number counts; None: not told
    began_s: float | None = None
    seen_s: float | None = None  # a moment at which the number was its own
    ended_s: float | None = None


def same_process(one: Numbered, other: Numbered, slack_s: float) -> Same:
    """Number, machine, namespace and time together. `slack_s`: how far apart two clocks or records of one moment may be."""
    fits = _in_time(one, other, slack_s)
    if one.pid != other.pid or fits is False or _differ(one.host, other.host) or _differ(one.namespace, other.namespace):
        return Same.NO
    placed = one.host and other.host and one.namespace is not None and other.namespace is not None
    return Same.YES if placed and fits else Same.UNKNOWN


def _differ(one: str | int | None, other: str | int | None) -> bool:
    """Both told, and not the same."""
    return one not in ("", None) and other not in ("", None) and one != other


def _in_time(one: Numbered, other: Numbered, slack_s: float) -> bool | None:
    """None: no two moments can be compared."""
    equal = [(one.began_s, other.began_s), (one.ended_s, other.ended_s)]
    order = [(a.began_s, late) for a, b in ((one, other), (other, one)) for late in (b.seen_s, b.ended_s)]
    order += [(a.seen_s, b.ended_s) for a, b in ((one, other), (other, one))]
    found = [abs(a - b) <= slack_s for a, b in equal if a is not None and b is not None]
    found += [a <= b + slack_s for a, b in order if a is not None and b is not None]
    return all(found) if found else None
