"""Turns the entries of one source into events. Pure; one object a source, fed in the source's order."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from runbooks.core.logs_config import LogShape
from runbooks.core.times import utc
from runbooks.parsers.logs.containers import LONGEST, entry, field_of
from runbooks.parsers.logs.event import LoggedEvent
from runbooks.parsers.logs.marks import Marks
from runbooks.parsers.logs.times import DayClock, LogClock

_KEY_BEGINS, _KEY_ENDS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY"), re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY")
_KEY_LINES = 200  # no key is longer
HIDDEN = "<secret:private-key>"
SEVERITIES = {"WARN": "WARNING", "FATAL": "CRITICAL", "ERR": "ERROR", "CRIT": "CRITICAL"}
SKEW = timedelta(minutes=2)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LogParser:
    """Counts what it was fed. `spread`: a line that fits no shape is an event of its own, for who shows each at once. `worker`:
    whose own log it is."""

    def __init__(self, source: str, shape: LogShape, spread: bool = False, worker: str = "") -> None:
        self._source, self._shape, self._spread, self._worker = source, shape, spread, worker
        self._patterns, self._marks = [re.compile(p) for p in shape.lines], Marks(shape.marks)
        self._clock, self._day = LogClock(shape.time_format, shape.zone), DayClock(shape.zone)
        self.lines = self.unfit = 0
        self._skew = timedelta()
        self._dated: datetime | None = None  # times of day got their date from this last change
        self._in_key, self._cycle, self._turn, self._back = 0, -1, -1, 0
        self._marked = True  # the present cycle was begun by a mark, not by a field of its lines
        self._last: LoggedEvent | None = None
        self._of_day: list[LoggedEvent] = []

    def feed(self, given: "dict[str, Any] | str") -> LoggedEvent | None:
        """The event that begins with this entry; None where it belongs to the one before."""
        self.lines += 1
        event = self._of_data(given) if isinstance(given, dict) else self._of_line(given)
        if event is None:
            return None
        event.worker = event.worker or self._worker
        self._hide(event)
        return self._placed(event)

    def _of_data(self, data: dict[str, Any]) -> LoggedEvent:
        s = self._shape
        said = field_of(data, s.message)
        message = said if isinstance(said, str) else _shown(data if said is None else said)
        inner = entry(message) if message[:1] == "{" else None
        whole = {**data, **{k: v for k, v in inner.items() if k not in ("timestamp", "time")}} if isinstance(inner, dict) else data
        if isinstance(inner, dict) and isinstance(inside := field_of(inner, s.message), str):
            message = inside
        event = LoggedEvent(self._source, message, self._clock.read(field_of(data, s.time)))
        own = field_of(whole, ("asctime", "attributes.asctime"))
        event.severity, event.logger = _word(field_of(whole, s.severity)).upper(), _word(field_of(whole, s.logger))
        event.worker, event.task = _word(field_of(whole, s.worker)), _word(field_of(whole, s.task))
        cycle = field_of(whole, s.cycle)
        event.cycle = cycle if isinstance(cycle, int) and not isinstance(cycle, bool) else None
        if (framed := self._framed(message)) is not None:
            own = own or framed["time"]
            event.message = framed["message"] or ""
            event.severity = event.severity or (framed.get("severity") or "").upper()
            event.logger = event.logger or framed.get("logger") or ""
        if event.at is not None and own is not None and (told := self._clock.read(own)) is not None:
            self._skew = told - event.at
        elif event.at is None and own is not None:
            event.at = self._clock.read(own)
        return event

    def _framed(self, line: str) -> dict[str, str | None] | None:
        for pattern in self._patterns:
            if hit := pattern.search(line[:LONGEST]):
                return hit.groupdict() | {"message": (hit.groupdict().get("message") or "") + line[LONGEST:]}
        return None

    def _of_line(self, line: str) -> LoggedEvent | None:
        framed = self._framed(line)
        if framed is not None:
            text = framed.get("time") or ""
            event = LoggedEvent(self._source, framed["message"] or "", self._clock.read(text))
            event.severity, event.logger = (framed.get("severity") or "").upper(), framed.get("logger") or ""
            if event.at is None:
                self._time_of_day(event, text)
            inner = entry(event.message)
            if isinstance(inner, dict) and event.at is not None:
                return self._of_data({"timestamp": event.at.isoformat(), "message": event.message})
            return event
        self.unfit += 1
        event = LoggedEvent(self._source, line, own_time=False)
        if self._last is None or self._spread or self._marks.find(line) is not None:
            return event
        self._hide(event)
        self._last.more.append(event.message)
        return None

    def _time_of_day(self, event: LoggedEvent, text: str) -> None:
        since = self._day.read(text)
        if since is None:
            return
        event.at = _EPOCH + since  # until the date is known
        self._of_day.append(event)

    def _hide(self, event: LoggedEvent) -> None:
        """A private key that is spread over lines: no single one of them looks like a secret."""
        begins = _KEY_BEGINS.search(event.message)
        if self._in_key or begins:
            ends = _KEY_ENDS.search(event.message)
            before = event.message[: begins.start()] if begins and not self._in_key else ""
            after = event.message[ends.end() :].lstrip("-") if ends else ""
            self._in_key = 0 if ends else (self._in_key or _KEY_LINES + 1) - 1
            event.message = f"{before}{HIDDEN}{after}"

    def _placed(self, event: LoggedEvent) -> LoggedEvent:
        if event.at is None and self._last is not None:
            event.at, event.own_time = self._last.at, False
            if self._of_day and self._last is self._of_day[-1]:
                self._of_day.append(event)
        event.severity = SEVERITIES.get(event.severity, event.severity)
        found = self._marks.find(event.message)
        if found:
            event.kind, event.phase, event.numbers = found.kind, found.phase, found.numbers
            event.cycle = found.cycle if found.cycle is not None else event.cycle
        self._count(event)
        self._last = event
        return event

    def _count(self, event: LoggedEvent) -> None:
        """Which of the source's cycles the event belongs to. A mark begins one, and so does another number in a field."""
        mark, number = event.kind == "cycle", event.cycle
        other = number is not None and number != self._cycle
        if other or (mark and self._marked):
            self._turn += 1
            self._back += number is not None and number < self._cycle
            self._marked = mark
        if number is not None:
            self._cycle = number
        event.turn = self._turn
        event.cycle = self._cycle if number is None and self._cycle >= 0 else number

    def end(self, changed: datetime | None = None) -> None:
        """Gives the times of day so far their date, where it is known when the log was last changed."""
        if not self._of_day:
            return
        last = max(e.at for e in self._of_day if e.at) - _EPOCH
        for event in self._of_day:
            if event.at is not None:
                event.at = self._day.first_day(last, changed) + (event.at - _EPOCH) if changed else None
        self._dated = changed or self._dated
        self._of_day.clear()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the events has to know."""
        found = []
        if self._clock.assumed:
            found.append("its times have no zone: UTC is assumed (log_sources.shapes names another)")
        if self._dated:
            found.append(f"its times have no date: counted back from its last change, {utc(self._dated)}")
        if abs(self._skew) > SKEW:
            off = f"{self._skew.total_seconds():+.0f} s"
            found.append(f"its own clock or zone differs from the platform's by {off}; the platform's time is shown")
        if self._back:
            found.append(f"the cycle's number goes back {self._back} times: started again, or two at once")
        return tuple(found)


def _word(x: Any) -> str:
    return str(x)[:200] if isinstance(x, str | int | float) else ""


def _shown(x: Any) -> str:
    return str(x)[:LONGEST]
