"""What a gather function and an action are given: the target, its machines, the limits, the time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import sleep
from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.fleet import Fleet, Node
from runbooks.core.redact import Redactor
from tasks.installation import installation_redactor
from tasks.transport.base import Host


def utc_now() -> datetime:
    """The engine's clock."""
    return datetime.now(UTC)


class Acting(Frozen):
    """The act that a context is lent to: on the machine that it changes, a lock file says so."""

    run: str  # the act run
    owner: str  # what is locked


@dataclass(frozen=True)
class Context:
    """One run's access to the world. Tests pass their own clock, sleep and hosts."""

    fleet: Fleet
    target: str
    open_host: Callable[[Node], Host]  # cached by the engine: one connection per node and run
    limits: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # runbook-specific parameters of the run
    earlier: dict[str, Any] | None = None  # last report's JSON of this runbook and target, to bridge limits of minutes
    redactor: Redactor = field(default_factory=installation_redactor)
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = sleep
    acting: Acting | None = None  # None while nothing may be changed

    @property
    def node(self) -> Node:
        """The fleet node named by the target. Raises KeyError that lists the names."""
        return self.fleet.node(self.target)

    @property
    def host(self) -> Host:
        """The target node's connection. Raises TransportError."""
        return self.open_host(self.node)


class ActResult(Frozen):
    """What an action did, in words that go into the report."""

    said: tuple[str, ...]


class Refused(Exception):
    """The action would not touch it: an identity changed or a guard on the node said no. Nothing was changed."""
