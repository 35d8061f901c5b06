"""Times as a person gives them to `logs`: a length back from now, a time of day, or a date and time. UTC where no zone is said."""

import argparse
from datetime import UTC, datetime, timedelta

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FUTURE = timedelta(days=1)


def log_time(text: str) -> datetime:
    """`20m`, `03:10` (the last one that was), `2026-03-02T03:10`, with or without a zone. Raises ArgumentTypeError."""
    word, now = text.strip(), datetime.now(UTC)
    try:
        if word[-1:] in UNITS and word[:-1].isascii() and word[:-1].isdecimal():
            return now - timedelta(seconds=int(word[:-1]) * UNITS[word[-1]])
        if ":" in word and "-" not in word and len(word) <= 8:
            clock = datetime.strptime(word, "%H:%M:%S" if word.count(":") == 2 else "%H:%M")  # noqa: DTZ007 - UTC, below
            found = now.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
            return found if found <= now else found - timedelta(days=1)
        found = datetime.fromisoformat(word)
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"a time is 20m, 3h, 2d, 03:10 or 2026-03-02T03:10 (UTC where no zone is given), not {text[:40]!r}"
        ) from None
    if found > now + FUTURE:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} lies in the future")
    return found
