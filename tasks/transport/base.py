"""What every way to a machine can do, and how it fails. Implementations: local.py, ssh.py."""

from collections.abc import Sequence
from typing import Protocol

from runbooks.core.base import Frozen
from runbooks.core.reading import UnknownReason


class CommandResult(Frozen):
    """A command that ended on the machine."""

    command: str  # shell-quoted, as a person would type it
    exit: int
    out: str
    err: str
    seconds: float
    truncated: bool = False  # output was cut at the cap


class TransportError(Exception):
    """The command gave no answer. `reason` says what kind of no."""

    def __init__(self, reason: UnknownReason, detail: str, command: str = "") -> None:
        super().__init__(reason, detail, command)
        self.reason, self.detail, self.command = reason, detail, command

    @property
    def why(self) -> str:
        """The reason in words, and what was said; without the command."""
        return f"{self.reason.words}: {self.detail}"

    def __str__(self) -> str:
        return self.why + (f" ({self.command})" if self.command else "")

    def shown_as(self, command: str) -> None:
        """Name the command by what a person knows it by."""
        self.command = command


class KeyRefusedError(TransportError):
    """The server refused the key. `fingerprint`: of the one that was offered, "" for all of an agent's; `says`: its words."""

    def __init__(self, detail: str, fingerprint: str, says: str) -> None:
        super().__init__(UnknownReason.DENIED, detail)
        self.fingerprint, self.says = fingerprint, says


class Host(Protocol):
    """A machine of the fleet, open for one run."""

    @property
    def name(self) -> str:
        """Name in the fleet file."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts about the connection that a report must show (first-seen host key, jump host …)."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 20.0,
        limit_bytes: int = 1 << 20,
    ) -> CommandResult:
        """Run `argv` there. Raises TransportError: unreachable, denied, timed-out (the remote command was ended, or
        the detail says "left running, pid …"), tool-missing (exit 127 of the command itself)."""

    def close(self) -> None:
        """End the connection; later calls raise."""
