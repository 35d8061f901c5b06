"""How long ago, since when: times as a person reads them, always UTC, never finer than a second."""

from datetime import UTC, datetime, timedelta

from runbooks.core.times import read_time, utc


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


def since(at: datetime, now: datetime) -> str:
    """`since 2026-03-02 02:14:05 UTC (3 min ago)`."""
    return f"since {utc(at)} ({ago((now - at).total_seconds())})"


def began(age_s: float, now: datetime) -> str:
    """The same for what began `age_s` seconds ago."""
    return since(now - timedelta(seconds=age_s), now)


def moment(text: object) -> datetime | None:
    """The time that an ISO text names, taken as UTC where it names no zone; None if it is no time."""
    at = read_time(str(text))
    return at.replace(tzinfo=UTC) if at and not at.tzinfo else at
