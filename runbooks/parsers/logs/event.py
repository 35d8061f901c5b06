"""One thing that a log says, whichever source it came from, and what is known of the source itself. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runbooks.core.base import Frozen


class ReadState(StrEnum):
    """How much of a source was read."""

    WHOLE = "whole"
    CUT = "cut"
    NOT_READ = "not-read"


@dataclass(slots=True)
class LoggedEvent:
    """A line with what belongs to it. `at` is UTC; None: neither the line nor one before it has a time."""

    source: str
    message: str
    at: datetime | None = None
    severity: str = ""  # DEBUG … CRITICAL; "": the line does not say
    logger: str = ""
    worker: str = ""
    task: str = ""
    kind: str = ""  # cycle, decision, summary, step; "": nothing that is looked for
    phase: str = ""
    cycle: int | None = None
    turn: int = -1  # of the source's cycles as they were read, from 0; -1: before the first
    numbers: dict[str, float] = field(default_factory=dict)
    more: list[str] = field(default_factory=list)  # lines that fit no shape and follow it
    own_time: bool = True  # False: the time is that of the line before

    @property
    def text(self) -> str:
        """Everything it says."""
        return "\n".join((self.message, *self.more))


class SourceRead(Frozen):
    """What became of one source."""

    name: str
    place: str  # as a person would look there
    state: ReadState
    why: str = ""  # of what is cut or not read
    lines: int = 0
    unfit: int = 0  # lines that fit no shape, kept with the event before
    first: datetime | None = None
    last: datetime | None = None
    notes: tuple[str, ...] = ()
