"""How `logs` shows what it read: what is missing first, then the lines, then what they come to. Secrets are replaced here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runbooks.core.clean import one_line
from runbooks.core.times import utc
from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead

Redact = Callable[[str], str]
LONGEST = 2000  # characters of a line that are shown
MORE = 40  # lines below an event that are shown
WORDS = {ReadState.NOT_READ: "not read", ReadState.CUT: "in part", ReadState.WHOLE: "whole"}
ORDER = list(WORDS)
PARTLY, NOTHING = 1, 3  # exit codes


@dataclass
class LogsPage:
    """Everything that is shown. `redact` takes secrets out of a text."""

    sources: list[SourceRead]
    events: list[LoggedEvent]
    lines: int
    redact: Redact

    @property
    def code(self) -> int:
        """0: every source was read whole, 1: not every one, 3: none."""
        states = {s.state for s in self.sources}
        return NOTHING if states == {ReadState.NOT_READ} else PARTLY if states != {ReadState.WHOLE} else 0

    @property
    def ordered(self) -> list[SourceRead]:
        """What is missing first."""
        return sorted(self.sources, key=lambda s: ORDER.index(s.state))

    @property
    def shown(self) -> list[LoggedEvent]:
        """The newest ones."""
        return self.events[-self.lines :] if self.lines else []


def page_lines(page: LogsPage) -> Iterator[str]:
    """What became of the sources, and the events."""
    yield from source_lines(page)
    yield ""
    if left := len(page.events) - len(page.shown):
        yield f"… {left:,} earlier events are not shown (--lines)"
    for event in page.shown:
        yield from event_lines(event, page.redact)
    if not page.events:
        yield "no line was read that fits; a log that is silent does not say that its writer is dead"


def source_lines(page: LogsPage) -> Iterator[str]:
    """What became of each source."""
    bad = {state: sum(s.state is state for s in page.sources) for state in ORDER}
    total = len(page.sources)
    told = {ReadState.NOT_READ: "could not be read", ReadState.CUT: "read in part"}
    said = [f"{bad[state]} of {total} {words}" for state, words in told.items() if bad[state]]
    yield f"sources: {', '.join(said)}" if said else f"sources: {total} read whole"
    for s in page.ordered:
        span = f"; {utc(s.first)} to {utc(s.last)}" if s.first and s.last else ""
        counts = f"{s.lines:,} lines{f', {s.unfit:,} of them without a form of their own' if s.unfit else ''}{span}"
        what = s.why if s.state is ReadState.NOT_READ else "; ".join(x for x in (s.why, counts) if x)
        yield f"  {WORDS[s.state]:<9} {one_line(page.redact(f'{s.name} ({s.place}): {what}'), LONGEST)}"
        for note in s.notes:
            yield f"            {one_line(page.redact(note), LONGEST)}"


def event_lines(event: LoggedEvent, redact: Redact) -> Iterator[str]:
    """An event on one line, what belongs to it below."""
    first, *more = redacted(event, redact)
    at = utc(event.at) if event.at else "(no time)"
    yield f"{at:<23}  {one_line(event.source, 40)}  {event.severity or '-':<8} {one_line(first, LONGEST)}"
    for line in more[:MORE]:
        yield f"{'':<23}  | {one_line(line, LONGEST)}"
    if len(more) > MORE:
        yield f"{'':<23}  | … {len(more) - MORE:,} more lines (--json has them)"


def redacted(event: LoggedEvent, redact: Redact) -> list[str]:
    """The event's lines without secrets, also such as are spread over them. The first is its message."""
    message = event.message.replace("\r\n", "\n")
    lines = redact("\n".join((message, *event.more))).split("\n")
    inside = message.count("\n")
    return lines if not inside else [" ".join(lines[: inside + 1]), *lines[inside + 1 :]]


def page_data(page: LogsPage) -> dict[str, Any]:
    """The page as JSON holds it."""
    return {
        "exit_code": page.code,
        "sources": [source_data(s, page.redact) for s in page.ordered],
        "events": [event_data(e, page.redact) for e in page.shown],
        "events_left_out": len(page.events) - len(page.shown),
    }


def source_data(source: SourceRead, redact: Redact) -> dict[str, Any]:
    """As JSON holds it."""
    data = source.model_dump(mode="json")
    return data | {"why": redact(source.why), "place": redact(source.place), "notes": [redact(n) for n in source.notes]}


def event_data(event: LoggedEvent, redact: Redact) -> dict[str, Any]:
    """As JSON holds it; times in ISO, UTC."""
    first, *more = redacted(event, redact)
    return {
        "at": iso(event.at), "own_time": event.own_time, "source": event.source, "severity": event.severity,
        "logger": redact(event.logger), "kind": event.kind, "phase": event.phase, "cycle": event.cycle, "numbers": event.numbers,
        "worker": redact(event.worker), "task": redact(event.task), "message": first, "more": more,
    }  # fmt: skip


def iso(at: datetime | None) -> str | None:
    """With microseconds; None for none."""
    return at.isoformat(timespec="microseconds") if at else None
