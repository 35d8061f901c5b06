"""A time as logs write it: ISO, a number since 1970, a form of one's own, or only the time of day. Pure."""

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0, 1.0))  # from so much on: this many a second
_FIRST, _LAST = 0.0, 4102444800.0  # 1970 to 2100


class LogClock:
    """Reads times of one source. `assumed`: at least one had no zone, and the shape names none."""

    def __init__(self, form: str = "", zone: str = "") -> None:
        self._form, self._named = form, bool(zone)
        self._zone: tzinfo = ZoneInfo(zone) if zone else UTC
        self.assumed = False
        self.of_day = False  # times of day alone: the date is filled in by `dated`

    def read(self, given: Any) -> datetime | None:
        """UTC; None for what is no time."""
        if isinstance(given, bool) or given is None:
            return None
        if isinstance(given, int | float):
            return _since_1970(given)
        text = str(given).strip()[:64]
        found = self._by_form(text) if self._form else _iso(text)
        if found is None:
            return _since_1970(float(text)) if text.isascii() and text.isdigit() else None
        if found.tzinfo is None:
            self.assumed = self.assumed or not self._named
            found = found.replace(tzinfo=self._zone)
        try:
            return found.astimezone(UTC)
        except (OverflowError, ValueError):
            return None

    def _by_form(self, text: str) -> datetime | None:
        try:
            return datetime.strptime(text, self._form)  # noqa: DTZ007 - the zone is the shape's
        except ValueError:
            return _iso(text)


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _since_1970(number: float) -> datetime | None:
    unit = next(u for least, u in _UNITS if abs(number) >= least)
    seconds = number / unit
    return datetime.fromtimestamp(seconds, UTC) if _FIRST < seconds < _LAST else None


class DayClock:
    """Times of day in the order of their lines. A step back of more than half a day is midnight."""

    def __init__(self, zone: str = "") -> None:
        self._zone: tzinfo = ZoneInfo(zone) if zone else UTC
        self._day, self._before = 0, -1.0

    def read(self, text: str) -> timedelta | None:
        """Since the first line's midnight; None for what is no time of day."""
        parts = text.strip().replace(",", ".").split(":")
        if len(parts) != 3:
            return None
        try:
            hours, minutes, seconds = int(parts[0]), int(parts[1]), float(parts[2])
        except ValueError:
            return None
        now = hours * 3600 + minutes * 60 + seconds
        if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 61):
            return None
        self._day += 1 if self._before - now > 43200 else -1 if self._day and now - self._before > 43200 else 0
        self._before = now
        return timedelta(days=self._day, seconds=now)

    def first_day(self, last: timedelta, changed: datetime) -> datetime:
        """The first line's midnight, in UTC, where the last line was written at or before `changed`."""
        local = changed.astimezone(self._zone) + timedelta(minutes=5)  # two clocks are never quite alike
        day: date = (local - last).date()
        return datetime(day.year, day.month, day.day, tzinfo=self._zone).astimezone(UTC)
