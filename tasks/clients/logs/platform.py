"""The platform's log of the orchestrator's deployment in service. The platform gives the newest lines only."""

from typing import Any

from runbooks.core.logs_config import LogShape
from runbooks.core.orchestrator_config import RailwayConfig
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead
from runbooks.parsers.logs.lines import LogParser
from tasks.clients.logs.source import FAR_S, LogWindow
from tasks.clients.railway import RailwayClient
from tasks.transport.base import TransportError

FULL = 500  # a multiple of so many lines is what a limit of the platform's own gives
SILENT = "the deployment has logged nothing; that proves nothing about its process"


class PlatformLog:
    """One service. `most`: newest lines that are asked for."""

    every_s = FAR_S

    def __init__(self, config: RailwayConfig, shape: LogShape, most: int, redactor: Redactor) -> None:
        self.name, self.place, self._most = "railway", f"{config.url} service {config.service}", most
        self._client, self._shape = RailwayClient(config, redactor), shape
        self._parser = LogParser(self.name, shape, spread=True)
        self._deployment = ""
        self._newer: tuple[str, ...] = ()
        self._before: list[tuple[str, str]] = []  # time and message of the lines of the last look

    def _lines(self) -> tuple[str, str, list[dict[str, Any]]]:
        """The deployment in service, its status, its newest lines."""
        running, newer = self._client.service()
        if running is None:
            raise TransportError(UnknownReason.FAILED, "the service has no deployment", self.place)
        self._newer = tuple(f"{d.words} is newer and not in service: {d.status}" for d in newer[:1])
        rows = self._client.lines(running.id, self._most)
        newest_first = len(rows) > 1 and rows[0]["timestamp"] > rows[-1]["timestamp"]
        return running.id, running.status, rows[::-1] if newest_first else rows

    def read(self, window: LogWindow) -> tuple[list[LoggedEvent], SourceRead]:
        """The newest lines. What ran before this deployment has a log of its own, which is not read."""
        self._deployment, status, rows = self._lines()
        self._before = [_key(r) for r in rows]
        parser = LogParser(self.name, self._shape)
        events = [e for e in map(parser.feed, rows) if e is not None]
        times = [e.at for e in events if e.at is not None]
        first = min(times, default=None)
        why = ""
        if self._full(rows):
            why = f"the platform gave its newest {len(rows):,} lines, which is a limit"
        elif window.since and (first is None or first > window.since):
            why = "the log of the deployment in service alone was read, and it begins later than what is asked for"
        notes = (f"deployment {self._deployment}, {status}", *self._newer, *parser.notes, *(() if rows else (SILENT,)))
        return events, SourceRead(
            name=self.name, place=self.place, state=ReadState.CUT if why else ReadState.WHOLE, why=why, lines=parser.lines,
            unfit=parser.unfit, first=first, last=max(times, default=None), notes=notes,
        )  # fmt: skip

    def _full(self, rows: list[dict[str, Any]]) -> bool:
        return len(rows) >= self._most or (bool(rows) and len(rows) % FULL == 0)

    def poll(self) -> tuple[list[LoggedEvent], tuple[str, ...]]:
        """Lines after those of the last look. Two alike are two."""
        deployment, status, rows = self._lines()
        notes: tuple[str, ...] = ()
        keys = [_key(r) for r in rows]
        if deployment != self._deployment:
            notes = (f"a new deployment: {deployment}, {status}; the last lines of the one before may be missing",)
            self._deployment, self._before = deployment, []
        known = _overlap(self._before, keys)
        if self._before and not known and self._full(rows):
            notes += (f"more than {len(rows):,} lines came between two looks: the oldest of them are missing",)
        self._before = keys or self._before
        return [e for e in map(self._parser.feed, rows[known:]) if e is not None], notes


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["timestamp"], row["message"]


def _overlap(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> int:
    """How many lines of `now` are the last of `before`: the new ones follow."""
    for size in range(min(len(before), len(now)), 0, -1):
        if before[-1] == now[size - 1] and before[-size:] == now[:size]:
            return size
    return 0
