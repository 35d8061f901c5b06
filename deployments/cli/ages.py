"""How long ago, since when: times as a person reads them, always UTC, never finer than a second."""

from datetime import UTC, datetime, timedelta

from runbooks.core.waiting import read_time


def span(seconds: float) -> str:
    """Seconds for people: `8 s`, `3 min`, `5 h`, `3 days`."""
    if seconds < 100:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.0f} days"


def ago(seconds: float) -> str:
    """`3 min ago`."""
    return f"{span(seconds)} ago"


def clock(at: datetime, now: datetime) -> str:
    """`02:14 UTC`, with its day where that is not today."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    day = "" if at.date() == now.date() else f"{at.day} {at:%b} " if at.year == now.year else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M} UTC"


def since(at: datetime, now: datetime) -> str:
    """`since 02:14 UTC (3 min ago)`."""
    return f"since {clock(at, now)} ({ago((now - at).total_seconds())})"


def began(age_s: float, now: datetime) -> str:
    """The same for what began `age_s` seconds ago."""
    return since(now - timedelta(seconds=age_s), now)


def moment(text: object) -> datetime | None:
    """The time that an ISO text names, taken as UTC where it names no zone; None if it is no time."""
    at = read_time(str(text))
    return at.replace(tzinfo=UTC) if at and not at.tzinfo else at
