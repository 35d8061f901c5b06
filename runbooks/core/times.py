"""The one form in which a person sees a time: UTC, to the second. Pure."""

from datetime import UTC, datetime


def utc(at: datetime | float) -> str:
    """`2026-03-02 02:14:05 UTC`. A number is in seconds since 1970; a time without a zone is taken as UTC."""
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return f"{moment.astimezone(UTC) if moment.tzinfo else moment:%Y-%m-%d %H:%M:%S} UTC"


def read_time(text: str) -> datetime | None:
    """The time behind a stored ISO text; None where there is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def utc_of(text: object) -> str:
    """The same for a stored ISO text; what is no time stays as it is."""
    at = read_time(str(text))
    return utc(at) if at else str(text)


def utc_first(text: str) -> str:
    """A text whose first word is a stored ISO time, with that time in the form for people; any other text as it is."""
    first, space, rest = text.partition(" ")
    return utc_of(first) + space + rest
