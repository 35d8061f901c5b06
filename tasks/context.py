"""What a gather function and an action are given: the target, its machines, the limits, the time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from time import sleep
from typing import Any, Protocol

from runbooks.core.base import Frozen
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import usual_limits
from runbooks.core.log_in import LogInSeen
from runbooks.core.redact import Redactor
from runbooks.core.refusal import Refusal, RefusalCode
from tasks.installation import installation_redactor
from tasks.shared import Shared
from tasks.transport.base import Host


def utc_now() -> datetime:
    """The engine's clock."""
    return datetime.now(UTC)


class TrackedOptions(dict[str, Any]):
    """A run's own options, which remembers those that were read: one that nobody read decided nothing, and the report says so.

    Parts that are made of it (`options | {…}`) remember together."""

    def __init__(self, given: Mapping[str, Any], read: set[str] | None = None) -> None:
        super().__init__(given)
        self._read = set() if read is None else read

    def unread(self) -> tuple[str, ...]:
        """Names of options that were given and that nobody has read."""
        return tuple(name for name, value in self.items() if name not in self._read and value not in (None, ""))

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The option, read."""
        self._read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """The option, read and taken away: another look does not find it again."""
        self._read.add(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The option, read; what is put there so is the run's own."""
        self._read.add(name)
        return super().setdefault(name, default)

    def __or__(self, more: Mapping[str, Any]) -> "TrackedOptions":  # type: ignore[override]
        return TrackedOptions({**dict(self), **more}, self._read)


class RunningAction(Frozen):
    """The action that a context is lent to: on the machine that it changes, a lock file says so."""

    run: str  # the action run
    owner: str  # what is locked
    lock: str = ""  # the name of its lock file, one for all names of a machine; "": the owner's
    ends: float = inf  # by time.monotonic(): no command of the step may still be at work then, for its lock is free


class LogIn(Protocol):
    """What subjects that are not about SSH ask about a log-in: see tasks/ssh/seen.py."""

    def seen(self, context: "Context", node: Node) -> LogInSeen:
        """How far the log-in to `node` gets."""

    def changed(self, context: "Context") -> None:
        """What was heard before counts no longer."""


@dataclass(frozen=True)
class Context:
    """One run's access to the world. Tests pass their own clock, sleep and hosts."""

    fleet: Fleet
    target: str
    open_host: Callable[[Node], Host]  # cached by the engine: one connection per node and run
    limits: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # runbook-specific parameters of the run
    earlier: dict[str, Any] | None = None  # last report's JSON of this runbook and target, to bridge limits of minutes
    sweep: str = ""  # kind of the sweep that looks: it has the whole fleet to look at
    shared: Shared | None = None  # what that sweep reads once; None: everything is read anew
    since: datetime | None = None  # in a sweep: from when on what happened is news
    redactor: Redactor = field(default_factory=installation_redactor)
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = sleep
    log_in: LogIn | None = None  # given by the engine
    acting: RunningAction | None = None  # None while nothing may be changed

    def __post_init__(self) -> None:
        if not isinstance(self.options, TrackedOptions):
            object.__setattr__(self, "options", TrackedOptions(self.options))

    @property
    def not_used(self) -> tuple[str, ...]:
        """Names of options that the run was given and that no reader has asked for."""
        return self.options.unread() if isinstance(self.options, TrackedOptions) else ()

    def limit(self, name: str, runbook: str) -> float:
        """The run's own limit; where its runbook has none of that name, what `runbook` usually has. Raises KeyError."""
        return float(self.limits[name] if name in self.limits else usual_limits(runbook)[name])

    @property
    def node(self) -> Node:
        """The fleet node named by the target. Raises KeyError that lists the names."""
        return self.fleet.node(self.target)

    @property
    def host(self) -> Host:
        """The target node's connection. Raises TransportError."""
        return self.open_host(self.node)


class ActionResult(Frozen):
    """What an action did, in words that go into the report; and by name, what only it knows and an undo needs."""

    said: tuple[str, ...]
    facts: dict[str, str | int] = {}


class ActionRefused(Exception):
    """A guard said no, or the target is not what was judged. Nothing was changed. `code`: which kind of no."""

    def __init__(self, code: RefusalCode, why: str) -> None:
        super().__init__(why)
        self.code = RefusalCode(code)  # no refusal without one

    @property
    def refusal(self) -> Refusal:
        """For the report."""
        return Refusal(code=self.code, why=str(self))
