"""What every source of a log can do: be read once, and be looked at again for what is new."""

from datetime import datetime
from typing import NamedTuple, Protocol

from runbooks.parsers.logs.event import LoggedEvent, ReadState, SourceRead
from tasks.transport.base import TransportError


class LogWindow(NamedTuple):
    """What is asked for; None: no bound."""

    since: datetime | None = None
    until: datetime | None = None
    follow: bool = False  # it is polled afterwards: a line that has not ended yet is left for then


FAR_S = 5.0  # between two looks at what another machine keeps


class LogSource(Protocol):
    """One place where lines stand."""

    @property
    def every_s(self) -> float:
        """Seconds between two looks."""

    @property
    def name(self) -> str:
        """As it is shown at each line."""

    @property
    def place(self) -> str:
        """As a person would look there."""

    def read(self, window: LogWindow) -> tuple[list[LoggedEvent], SourceRead]:
        """What is there. Raises TransportError."""

    def poll(self) -> tuple[list[LoggedEvent], tuple[str, ...]]:
        """What is new since, and what may be missing. Raises TransportError."""


def read_source(source: LogSource, window: LogWindow) -> tuple[list[LoggedEvent], SourceRead]:
    """The same, where a source that cannot be read is told instead of raised."""
    try:
        return source.read(window)
    except TransportError as e:
        return [], SourceRead(name=source.name, place=source.place, state=ReadState.NOT_READ, why=e.why)
