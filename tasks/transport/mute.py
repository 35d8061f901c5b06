"""Remembers a server that let us in and then ran nothing, so that a run does not wait for it command by command."""

import threading
import time

from runbooks.core.reading import UnknownReason
from tasks.transport.base import TransportError

AGAIN_S = 30.0  # it is not asked again sooner


class NoWordError(TransportError):
    """Logged in, and the command gave no sign of having begun."""


class Mute:
    """Shared by everything that uses the connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until, self._why = 0.0, ""

    def note(self, error: NoWordError) -> None:
        """It gave no word now."""
        with self._lock:
            self._until, self._why = time.monotonic() + AGAIN_S, error.detail

    def refuse(self) -> None:
        """Raise TransportError while it is not to be asked."""
        with self._lock:
            if time.monotonic() < self._until:
                raise TransportError(UnknownReason.UNREACHABLE, f"it lets us in and runs nothing, so it was not asked again ({self._why})")
