"""A table of log lines in the orchestrator's database, by SQL or by its REST interface. Reads page by page, by time and id."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from runbooks.core.logs_config import LogShape, LogTable
from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead
from runbooks.parsers.logs.lines import LogParser
from runbooks.parsers.logs.shapes import ORCHESTRATOR
from runbooks.parsers.logs.times import LogClock
from tasks.clients.logs.source import FAR_S, LogWindow
from tasks.clients.worker_db import SqlDb
from tasks.clients.worker_rest import RestDb
from tasks.credentials import credential
from tasks.transport.base import TransportError

PAGE, MOST = 1000, 20_000  # rows of an answer, and of all together
Row = dict[str, Any]
Key = tuple[Any, Any]  # time and id of a row, as the interface gave them
SILENT = (
    "the table has no line of that time, or row security hides its rows from this login. "
    "Its writer can be off (ENABLE_DB_LOGGING) while the orchestrator is alive."
)


class LogPages(Protocol):
    """One way to ask the table. Raises TransportError."""

    shown: str

    def page(self, window: LogWindow, before: Key | None, after: Key | None) -> list[Row]:
        """The newest rows of the window, at most PAGE: older than the row `before`; with a later time or a greater id than `after`."""


class SqlPages(SqlDb):
    """By SQL."""

    def __init__(self, config: DatabaseConfig, table: LogTable, url: str, redactor: Redactor) -> None:
        super().__init__(config, url, redactor)
        self._table = table

    def page(self, window: LogWindow, before: Key | None, after: Key | None) -> list[Row]:
        """One SELECT."""
        t = self._table
        time, id = f'"{t.time}"', f'"{t.id}"'
        where, values = [f"{time} IS NOT NULL"], dict[str, Any]()
        for word, sign, bound in (("since", ">=", window.since), ("until", "<=", window.until)):
            if bound is not None:
                where.append(f"{time} {sign} :{word}")
                values[word] = bound
        if before is not None:
            where.append(f"({time}, {id}) < (:before, :before_id)")
            values |= {"before": before[0], "before_id": before[1]}
        if after is not None:
            by_id = f" OR {id} > :after_id" if _grows(after[1]) else ""
            where.append(f"({time} > :after{by_id})")
            values |= {"after": after[0]} | ({"after_id": after[1]} if by_id else {})
        columns = ", ".join(f'"{c}"' for c in columns_of(t))
        name = ".".join(f'"{part}"' for part in t.table.split("."))
        sql = f"SELECT {columns} FROM {name} WHERE {' AND '.join(where)} ORDER BY {time} DESC, {id} DESC LIMIT {PAGE}"  # noqa: S608
        return self._rows(sql, values)


class RestPages(RestDb):
    """By REST."""

    def __init__(self, config: DatabaseConfig, table: LogTable, url: str, redactor: Redactor) -> None:
        super().__init__(config, url, redactor)
        self._table = table

    def page(self, window: LogWindow, before: Key | None, after: Key | None) -> list[Row]:
        """One GET."""
        t = self._table
        tests = [f"{t.time}.not.is.null"]
        tests += [f'{t.time}.{op}."{b.isoformat()}"' for op, b in (("gte", window.since), ("lte", window.until)) if b is not None]
        if before is not None:
            at, id = _quoted(before[0]), _quoted(before[1])
            tests.append(f"or({t.time}.lt.{at},and({t.time}.eq.{at},{t.id}.lt.{id}))")
        if after is not None:
            by_id = f",{t.id}.gt.{_quoted(after[1])}" if _grows(after[1]) else ""
            tests.append(f"or({t.time}.gt.{_quoted(after[0])}{by_id})")
        ask = {"select": ",".join(columns_of(t)), "order": f"{t.time}.desc,{t.id}.desc", "limit": str(PAGE), "and": f"({','.join(tests)})"}
        return self._ask("GET", t.table, ask)[0]


def _quoted(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _grows(id: Any) -> bool:
    return isinstance(id, int) and not isinstance(id, bool)


def columns_of(table: LogTable) -> tuple[str, ...]:
    """Columns that are read; those that the table lacks have no name."""
    t = table
    return tuple(dict.fromkeys(c for c in (t.id, t.time, t.message, t.severity, t.source, t.worker, t.task, t.cycle) if c))


def table_pages(config: DatabaseConfig, table: LogTable, redactor: Redactor) -> LogPages:
    """SQL first. Raises TransportError when neither way is configured."""
    url = credential(config.url_env).strip()
    if url:
        return SqlPages(config, table, url, redactor)
    rest = credential(config.rest_url_env).strip()
    if rest:
        return RestPages(config, table, rest, redactor)
    raise TransportError(UnknownReason.DENIED, f"neither {config.url_env} nor {config.rest_url_env} is set: the database cannot be asked")


class TableLog:
    """The table as a source."""

    every_s = FAR_S

    def __init__(self, table: LogTable, pages: LogPages, most: int = MOST) -> None:
        self.name, self.place, self._most = f"table {table.table}", pages.shown, most
        self._table, self._pages = table, pages
        fields = {"time": table.time, "message": table.message, "severity": table.severity, "logger": table.source}
        fields |= {"worker": table.worker, "task": table.task, "cycle": table.cycle}
        named = {field: (column,) if column else () for field, column in fields.items()}
        self._shape: LogShape = ORCHESTRATOR.model_copy(update=named)
        self._parser = LogParser(self.name, self._shape)
        self._clock = LogClock()
        self._seen: dict[Any, datetime] = {}  # ids of rows that can come again -> their time
        self._last: Key | None = None

    def read(self, window: LogWindow) -> tuple[list[LoggedEvent], SourceRead]:
        """The newest rows of the window."""
        rows: list[Row] = []
        for page in self._each(window, None):
            rows += page
            if len(rows) >= self._most:
                break
        short = len(rows) >= self._most
        self._note(rows)
        parser = LogParser(self.name, self._shape)
        events = [e for e in map(parser.feed, map(_plain, reversed(rows[: self._most]))) if e is not None]
        times = [e.at for e in events if e.at is not None]
        notes = parser.notes if rows else (SILENT,)
        return events, SourceRead(
            name=self.name, place=self.place, state=ReadState.CUT if short else ReadState.WHOLE,
            why=f"only its newest {self._most:,} lines were read" if short else "", lines=len(events),
            first=min(times, default=None), last=max(times, default=None), notes=notes,
        )  # fmt: skip

    def _each(self, window: LogWindow, after: Key | None) -> Iterator[list[Row]]:
        """Pages, the newest first, to the last one: the interface may cut each at a number of its own."""
        before: Key | None = None
        while True:
            page = self._pages.page(window, before, after) or self._pages.page(window, before, after)
            if not page:  # twice: one empty answer of a system under load is no end
                return
            yield page
            key = self._key(page[-1])
            if key == before:
                raise TransportError(UnknownReason.UNPARSABLE, "the same page came twice", self.place)
            before = key

    def _key(self, row: Row) -> Key:
        key = row.get(self._table.time), row.get(self._table.id)
        if key[0] is None or key[1] is None:
            raise TransportError(UnknownReason.UNPARSABLE, f"a row has no {self._table.time} or {self._table.id}", self.place)
        return key

    def _note(self, rows: list[Row]) -> None:
        """Which rows are known. A row can come later than newer ones: its writer collects rows, its clock is behind."""
        for row in rows:
            at, id = self._key(row)
            told = self._clock.read(at.isoformat() if isinstance(at, datetime) else at) or datetime.now(UTC)
            self._seen[id] = told
        latest = self._latest()
        old = latest - 4 * timedelta(seconds=self._table.late_s) - timedelta(minutes=1)
        self._seen = {id: at for id, at in self._seen.items() if at >= old or _grows(id)}
        if len(self._seen) > 4 * self._most:
            self._seen = dict(sorted(self._seen.items(), key=lambda kv: kv[1])[-2 * self._most :])

    def _latest(self) -> datetime:
        """The newest time that is known, and not later than now: a row of the future must hide no other."""
        now = datetime.now(UTC)
        return min(max(self._seen.values(), default=now), now)

    def poll(self) -> tuple[list[LoggedEvent], tuple[str, ...]]:
        """Rows with a new id: whose time is not long past, or whose id is greater than all that are known."""
        margin = timedelta(seconds=self._table.late_s)
        ids = [id for id in self._seen if _grows(id)]
        after = (self._latest() - margin, max(ids) if ids else None)
        rows: list[Row] = []
        notes: tuple[str, ...] = ()
        for page in self._each(LogWindow(), after):
            rows += [row for row in page if self._key(row)[1] not in self._seen]
            if len(rows) >= self._most:
                notes = (f"more than {self._most:,} lines came between two looks: the oldest of them are missing",)
                break
        self._note(rows)
        return [e for e in map(self._parser.feed, map(_plain, reversed(rows))) if e is not None], notes


def _plain(row: Row) -> Row:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | float | None) else str(value)
