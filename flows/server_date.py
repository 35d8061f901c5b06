"""How far the Prefect server's clock is from this machine's steady one, learnt from the `Date` of its answers.

Each answer bounds the distance: the server wrote its time after it was asked and before it was heard. In between the
steady clock counts, so that a clock which somebody sets on this machine changes nothing.
"""

import time
from email.utils import parsedate_to_datetime

from runbooks.core.base import Frozen

COARSE_S = 2.5  # `Date` is cut to the second, the server renews it once a second, and a busy one does so late


class ClockOffset(Frozen):
    """What was last learnt of one server."""

    seconds: float  # its seconds since 1970 minus our steady ones
    heard_at: float  # steady


APART: dict[str, ClockOffset] = {}


def steady() -> float:
    """Seconds that no one can set, counted on while the machine sleeps, the same in every process of it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def learn(server: str, date: str, asked_at: float, heard_at: float) -> None:
    """Takes down the `Date` of an answer; what is no date is passed over."""
    try:
        said = parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return
    least, most = said - heard_at, said + COARSE_S - asked_at
    known = APART.get(server)
    APART[server] = ClockOffset(seconds=min(max(known.seconds, least), most) if known else least, heard_at=heard_at)
