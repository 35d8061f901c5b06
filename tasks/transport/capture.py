"""Bounded keeping of a command's output, and the memory of commands that could not be ended."""

import hashlib
import shlex
import threading
from collections.abc import Sequence

from runbooks.core.reading import UnknownReason
from tasks.transport.base import TransportError

_NOISE = 1 << 16  # bytes that a login script may print before the marker


class Capture:
    """The first `limit` bytes of a stream; the rest is read and dropped, so that memory stays bounded.

    With a marker, what comes before its line is dropped too and the rest of that line is `said`."""

    def __init__(self, limit: int, marker: bytes = b"") -> None:
        self._limit, self._marker = limit, marker
        self._kept, self._early = bytearray(), bytearray()
        self.truncated = False
        self.said: str | None = None if marker else ""

    def feed(self, data: bytes) -> None:
        """Take what the stream gave."""
        if self.said is not None:
            self._keep(data)
            return
        self._early += data
        at = self._early.find(self._marker)
        end = self._early.find(b"\n", at) if at >= 0 else -1
        if end >= 0:
            self.said = self._early[at + len(self._marker) : end].decode("ascii", "replace")
            rest, self._early = bytes(self._early[end + 1 :]), bytearray()
            self._keep(rest)
        elif len(self._early) > _NOISE:
            del self._early[:-256]

    def _keep(self, data: bytes) -> None:
        room = self._limit - len(self._kept)
        self._kept += data[:room]
        self.truncated = self.truncated or len(data) > room

    @property
    def text(self) -> str:
        """What was kept; bytes that are no UTF-8 show as U+FFFD."""
        return bytes(self._kept).decode("utf-8", "replace")

    @property
    def noise(self) -> str:
        """What came without the marker, where it never came."""
        return bytes(self._early).decode("utf-8", "replace")


class LeftRunning:
    """Commands of this run that could not be ended. None of them is started a second time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, str] = {}

    def note(self, argv: Sequence[str], stdin: str | None, detail: str) -> None:
        """Remember that this command may still run."""
        with self._lock:
            self._left[_key(argv, stdin)] = detail

    def refuse(self, argv: Sequence[str], stdin: str | None) -> None:
        """Raise TransportError if this command may still run from before."""
        with self._lock:
            detail = self._left.get(_key(argv, stdin))
        if detail:
            raise TransportError(UnknownReason.TIMED_OUT, f"not started again: {detail}", shlex.join(argv))


def _key(argv: Sequence[str], stdin: str | None) -> str:
    return shlex.join(argv) + "\0" + hashlib.sha256((stdin or "").encode()).hexdigest()
