"""A log of lines that grows: its newest part, or that around a time, and later what was added. Bounded in bytes."""

from datetime import datetime

from runbooks.core.logs_config import LogShape
from runbooks.core.reading import UnknownReason
from runbooks.parsers.logs.containers import ABOUT_1000, entry, held
from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead
from runbooks.parsers.logs.lines import LogParser
from tasks.clients.logs.bytes import Growth, LogBytes
from tasks.clients.logs.source import LogWindow
from tasks.transport.base import TransportError

MOST = 16 << 20  # bytes that are read of a log
PROBE = 64 << 10  # bytes that are read to learn a time in the middle
LONGEST_LINE = 1 << 20  # bytes that wait for the end of their line
SILENT = "it is empty; that a log is silent does not say that its writer is dead"
TRACE = 64  # bytes before the place that was read to: they tell a file that was emptied and filled again


class TextLog:
    """One log. `most`: bytes that are read at once. `worker`: whose own log it is."""

    def __init__(self, name: str, bytes: LogBytes, shape: LogShape, most: int = MOST, worker: str = "", every_s: float = 1.0) -> None:
        self.name, self.place, self._most, self._worker = name, bytes.shown, most, worker
        self._bytes, self._shape = bytes, shape
        self._identity, self._offset, self._rest, self._trace = "", 0, b"", b""
        self._looked: Growth | None = None  # at the last poll
        self.every_s = every_s
        self._parser = LogParser(name, shape, spread=True, worker=worker)

    def read(self, window: LogWindow) -> tuple[list[LoggedEvent], SourceRead]:
        """The part that the window asks for, at most `most` bytes of its end."""
        now = self._bytes.take_up()
        low, high, sought = self._bounds(now, window)
        begin = max(low, high - self._most)
        data = self._bytes.part(begin, high - begin)
        if window.follow:
            data = data[: data.rfind(b"\n") + 1]
        self._identity, self._offset, self._rest, self._trace = now.identity, begin + len(data), b"", data[-TRACE:]
        if begin:
            data = data.partition(b"\n")[2]
        found = held(data.decode("utf-8", "replace"), self.name if begin == 0 else "")
        if not found.problem and begin and self._bytes.part(0, 8).lstrip()[:1] == b"[" and self._is_list():
            found = found._replace(problem=f"one JSON list of more than {self._most >> 20} MiB; it is not read in parts")
        if found.problem:
            return [], SourceRead(name=self.name, place=self.place, state=ReadState.NOT_READ, why=found.problem)
        parser = LogParser(self.name, self._shape, worker=self._worker)
        events = [e for e in map(parser.feed, found.entries) if e is not None]
        parser.end(now.changed)
        return events, self._read(parser, events, begin > low, found.export, sought, now)

    def _is_list(self) -> bool:
        return self._bytes.part(0, 64).lstrip()[1:].lstrip()[:1] in (b"{", b'"')

    def _read(
        self, parser: LogParser, events: list[LoggedEvent], short: bool, export: int, sought: bool, now: Growth
    ) -> SourceRead:
        times = [e.at for e in events if e.at is not None]
        why = f"only the newest {self._most / (1 << 20):.3g} MiB of it were read" if short else ""
        if export >= ABOUT_1000 and not why:
            why = f"it holds {export} lines: the platform's exports end at about 1,000, so earlier ones may be missing"
        notes = list(parser.notes)
        if not events:
            notes.append("no line of that time" if now.size else SILENT)
        if sought:
            notes.append("the part of that time was found by its times, which are taken to grow")
        return SourceRead(
            name=self.name, place=self.place, state=ReadState.CUT if why else ReadState.WHOLE, why=why, lines=parser.lines,
            unfit=parser.unfit, first=min(times, default=None), last=max(times, default=None), notes=tuple(notes),
        )  # fmt: skip

    def _bounds(self, now: Growth, window: LogWindow) -> tuple[int, int, bool]:
        """Between which bytes the window lies. A small file is read whole."""
        if now.size <= self._most or not (window.since or window.until):
            return 0, now.size, False
        low = self._place_of(window.since, now.size) if window.since else 0
        high = self._place_of(window.until, now.size) if window.until else now.size
        if low is None or high is None:
            return 0, now.size, False
        low, high = max(0, low - PROBE), min(now.size, high + PROBE)
        return (low, high, True) if low < high else (0, now.size, False)

    def _place_of(self, at: datetime, size: int) -> int | None:
        """A byte before which the lines are older than `at`; None where the lines have no times of their own."""
        low, high = 0, size
        while high - low > PROBE:
            middle = (low + high) // 2
            found = self._time_in(self._bytes.part(middle, PROBE))
            if found is None:
                return None
            low, high = (middle, high) if found < at else (low, middle)
        return high if high == size else low

    def _time_in(self, data: bytes) -> datetime | None:
        parser = LogParser(self.name, self._shape)
        for line in data.decode("utf-8", "replace").split("\n")[1:-1]:
            event = parser.feed(entry(line))
            if event is not None and event.own_time and event.at is not None:
                return event.at if event.at.year > 1970 else None
        return None

    def poll(self) -> tuple[list[LoggedEvent], tuple[str, ...]]:
        """What was added. After a rotation the rest of the file before comes first."""
        try:
            now = self._bytes.look()
        except TransportError as e:
            if self._identity and e.reason is UnknownReason.FAILED:
                return self._dated(self._added(), None), (f"{e.why}; what is written under its name again is read",)
            raise
        if now == self._looked and now.size == self._offset:
            return [], ()
        self._looked = now
        notes: tuple[str, ...] = ()
        events = self._added() if self._identity else []
        if now.identity != self._identity:
            now = self._bytes.take_up()
            if self._identity:
                events += self._finish()
                said = self._bytes.lost()
                notes = (said,) if said else ()
            self._start(now.identity)
            events += self._added()
        elif now.size < self._offset or not self._same():
            notes = ("it was emptied; what was written between the last look and that is missing",)
            self._start(now.identity)
            events += self._added()
        return self._dated(events, now.changed), notes

    def _dated(self, events: list[LoggedEvent], changed: datetime | None) -> list[LoggedEvent]:
        self._parser.end(changed)
        return events

    def _start(self, identity: str) -> None:
        self._identity, self._offset, self._rest, self._trace = identity, 0, b"", b""

    def _same(self) -> bool:
        return not self._trace or self._bytes.part(self._offset - len(self._trace), len(self._trace)) == self._trace

    def _added(self) -> list[LoggedEvent]:
        """Whole lines that were added, of the file that was taken up; at most `most` bytes, the rest at the next look."""
        if not self._same():
            return []
        data = self._bytes.part(self._offset, self._most)
        self._offset += len(data)
        self._trace = (self._trace + data)[-TRACE:]
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        return self._events(lines)

    def _finish(self) -> list[LoggedEvent]:
        """A last line without its end, of a file to which nothing is added any more."""
        lines, self._rest = [self._rest] if self._rest else [], b""
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[LoggedEvent]:
        found = (self._parser.feed(entry(line.decode("utf-8", "replace"))) for line in lines)
        return [e for e in found if e is not None]
