"""What a merged log comes to: counters of each cycle, phases, errors by kind, and what a cycle decided. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from runbooks.parsers.logs.event import LoggedEvent

MINUTE = timedelta(minutes=1)
BAD = frozenset({"ERROR", "CRITICAL"})
MOST_KINDS = 5000  # of errors that are told apart; further ones are counted together
_CHANGES = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\b[\w.-]*\d[\w.-]*\b|'[^']{0,200}'|\"[^\"]{0,200}\"")


@dataclass(slots=True)
class CycleTally:
    """One cycle of one source."""

    source: str
    number: int | None
    began: datetime | None
    ended: datetime | None = None
    summed: bool = False  # its summary line was read
    numbers: dict[str, float] = field(default_factory=dict)  # of the summary line
    phases: dict[str, int] = field(default_factory=dict)  # lines of each phase
    decisions: list[LoggedEvent] = field(default_factory=list)
    errors: int = 0


@dataclass(slots=True)
class ErrorKind:
    """Error lines that differ in numbers, ids and quoted words only."""

    example: LoggedEvent
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    sources: set[str] = field(default_factory=set)


@dataclass(slots=True)
class LogSummary:
    """Of the events that were asked for."""

    cycles: list[CycleTally] = field(default_factory=list)
    errors: list[ErrorKind] = field(default_factory=list)  # the most frequent first
    severities: dict[str, int] = field(default_factory=dict)

    def totals(self) -> dict[str, dict[str, float]]:
        """Source -> counter -> sum over its cycles. Two sources can tell of the same cycles: they are never added together."""
        found: dict[str, dict[str, float]] = {}
        for cycle in self.cycles:
            of = found.setdefault(cycle.source, {})
            for name, number in cycle.numbers.items():
                of[name] = of.get(name, 0) + number
        return {source: of for source, of in found.items() if of}


def summarized(events: Iterable[LoggedEvent]) -> LogSummary:
    """Cycles in the order of their sources, errors by how often they came."""
    cycles: dict[tuple[str, int], CycleTally] = {}
    errors: dict[str, ErrorKind] = {}
    found = LogSummary()
    for event in events:
        if event.severity:
            found.severities[event.severity] = found.severities.get(event.severity, 0) + 1
        if event.severity in BAD:
            _add_error(errors, event)
        if event.turn >= 0:
            _add_to_cycle(cycles.setdefault((event.source, event.turn), CycleTally(event.source, event.cycle, event.at)), event)
    found.cycles = list(cycles.values())
    found.errors = sorted(errors.values(), key=lambda e: -e.count)
    return found


def _add_error(errors: dict[str, ErrorKind], event: LoggedEvent) -> None:
    key = _CHANGES.sub("#", event.message[:400])
    key = key if key in errors or len(errors) < MOST_KINDS else ""
    kind = errors.setdefault(key, ErrorKind(event))
    kind.count += 1
    kind.sources.add(event.source)
    if event.at is not None:
        kind.first = min(kind.first or event.at, event.at)
        kind.last = max(kind.last or event.at, event.at)


def _add_to_cycle(cycle: CycleTally, event: LoggedEvent) -> None:
    if event.at is not None:
        cycle.began = min(cycle.began or event.at, event.at)
        cycle.ended = max(cycle.ended or event.at, event.at)
    cycle.number = event.cycle if cycle.number is None else cycle.number
    cycle.errors += event.severity in BAD
    if event.phase:
        cycle.phases[event.phase] = cycle.phases.get(event.phase, 0) + 1
    if event.kind == "summary":
        cycle.summed = True
        cycle.numbers.update(event.numbers)  # two lines can say the same: the later one stands
    if event.kind == "decision" or (event.kind == "cycle" and event.numbers):
        cycle.decisions.append(event)


def cycles_at(summary: LogSummary, at: datetime, within: timedelta = MINUTE) -> list[CycleTally]:
    """Of each source the cycle that ran at this time, and those that began `within` after it: a person says "at 03:10".

    None of a source whose own lines end before.
    """
    latest: dict[str, datetime] = {}
    running: dict[str, CycleTally] = {}
    for cycle in summary.cycles:
        if cycle.began is None or cycle.ended is None:
            continue
        latest[cycle.source] = max(latest.get(cycle.source, cycle.ended), cycle.ended)
        before = running.get(cycle.source)
        if cycle.began <= at and (before is None or before.began is None or before.began <= cycle.began):
            running[cycle.source] = cycle
    found = [c for source, c in running.items() if latest[source] >= at]
    return found + [c for c in summary.cycles if c.began is not None and at < c.began <= at + within]


def error_counts(kinds: Sequence[ErrorKind], most: int) -> tuple[list[ErrorKind], int]:
    """The most frequent ones, and how many kinds are left out."""
    return list(kinds[:most]), max(0, len(kinds) - most)
