"""The fleet file's `orchestrator.log_sources`: where more logs lie, and what their lines look like."""

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from runbooks.core.base import Frozen, Regex

SQL_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$"
COLUMN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
OPTIONAL = r"^([A-Za-z_][A-Za-z0-9_]{0,62})?$"


class LogMark(Frozen):
    """A line that means something. Groups of the pattern that have a name are numbers of the event: `cycle`, or any count."""

    pattern: Regex = Field(min_length=2)  # Python regular expression, searched in the message
    kind: Literal["cycle", "decision", "summary", "step"] = "step"  # of a summary the group `counts` is a dictionary
    phase: str = ""


class LogShape(Frozen):
    """What lines look like. What is left out is as the seed's orchestrator writes it."""

    time: tuple[str, ...] = ()  # fields of a JSON line, the first that is there; a.b is b inside a
    time_format: str = ""  # as Python's strptime takes it; empty: ISO, or a number since 1970
    zone: str = ""  # of times without one, as Europe/Berlin; empty: UTC is assumed, and that is said
    severity: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    logger: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    lines: tuple[Regex, ...] = ()  # of plain lines; groups time, severity, logger, message
    marks: tuple[LogMark, ...] = ()

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            return name and ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            raise ValueError(f"no time zone {name[:40]!r}; give a name as Europe/Berlin, or UTC") from None

    @field_validator("time_format")
    @classmethod
    def _usable_format(cls, text: str) -> str:
        try:
            if text:
                datetime.strptime(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).strftime(text), text)  # noqa: DTZ007 - a trial
        except ValueError as e:
            raise ValueError(f"no format that strptime reads: {e}") from None
        return text

    @field_validator("lines")
    @classmethod
    def _with_message(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        if any("(?P<message>" not in line for line in lines):
            raise ValueError("each pattern needs the group (?P<message>…)")
        return lines


class LogPlace(Frozen):
    """A log file, on this machine or on a node of the fleet file."""

    path: str = Field(min_length=1)
    name: str = Field(default="", max_length=60)  # as it is shown; empty: the file's own name
    node: str = ""  # empty: this machine
    shape: str = "orchestrator"

    @property
    def shown(self) -> str:
        """The name at each of its lines."""
        file = self.path.rpartition("/")[2] or self.path
        return self.name or (f"{self.node}:{file}" if self.node else file)


class LogTable(Frozen):
    """A table of log lines in the orchestrator's database. What the table lacks has an empty column."""

    table: str = Field(default="system_logs", pattern=SQL_NAME)
    id: str = Field(default="id", pattern=COLUMN)  # grows with each row: what is new is read by time and id
    time: str = Field(default="timestamp", pattern=COLUMN)
    message: str = Field(default="message", pattern=COLUMN)
    severity: str = Field(default="log_level", pattern=OPTIONAL)
    source: str = Field(default="source_id", pattern=OPTIONAL)
    worker: str = Field(default="worker_id", pattern=OPTIONAL)
    task: str = Field(default="task_id", pattern=OPTIONAL)
    cycle: str = Field(default="cycle_number", pattern=OPTIONAL)
    late_s: float = Field(default=30, ge=0, le=600)  # how late a row may come: writers collect rows before they send them


class LogSources(Frozen):
    """Logs besides the platform's (`railway`) and the workers' (`logs`, `process.log`)."""

    files: tuple[LogPlace, ...] = ()
    table: LogTable | None = None
    shapes: dict[str, LogShape] = {}
    platform_lines: int = Field(default=1000, ge=1, le=5000)  # newest lines that the platform is asked for
    platform_shape: str = "orchestrator"
    worker_shape: str = "worker"

    @model_validator(mode="after")
    def _told_apart(self) -> "LogSources":
        shown = [f.shown for f in self.files]
        if twice := sorted({name for name in shown if shown.count(name) > 1}):
            raise ValueError(f"files: {len(shown)} files, of which several are shown as {twice[0][:60]!r}; give each a `name`")
        return self

    @model_validator(mode="after")
    def _known_shapes(self) -> "LogSources":
        known = {"orchestrator", "worker", *self.shapes}
        for name in (*(f.shape for f in self.files), self.platform_shape, self.worker_shape):
            if name not in known:
                raise ValueError(f"shape {name[:40]!r} is none of {', '.join(sorted(known))}")
        return self
