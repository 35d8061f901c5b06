"""Reads the watch's fleet file again when it has changed. A file that cannot be used is told, and the old one goes on."""

import logging
import os
import time
from pathlib import Path

from flows.config import load_fleet
from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet

log = logging.getLogger("watch")
EVERY_S = 2.0


class FleetFile:
    """The fleet file at `path` (None: the one of GPU_RUNBOOKS_FLEET, if any)."""

    def __init__(self, path: str | None) -> None:
        self._path = path or os.environ.get("GPU_RUNBOOKS_FLEET")
        self._mark, self._ask_at = self._stat(), 0.0

    def _stat(self) -> tuple[int, ...]:
        """What changes when the file does; () when it is not there."""
        try:
            found = Path(self._path).stat() if self._path else None
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino) if found else ()

    def changed(self, now: Fleet) -> Fleet | None:
        """Another fleet than `now`, once the file holds one that can be watched. Looks every two seconds."""
        if time.monotonic() < self._ask_at:
            return None
        self._ask_at = time.monotonic() + EVERY_S
        mark = self._stat()
        if not mark or mark == self._mark:
            return None
        self._mark = mark
        return self._read(now)

    def _read(self, now: Fleet) -> Fleet | None:
        try:
            fleet = load_fleet(self._path)
        except ConfigError as e:
            log.warning("the changed fleet file cannot be used; the old one stays in use: %s", e)
            return None
        if not fleet.containers:
            log.warning("the changed fleet file names no `containers`; the old one stays in use")
            return None
        return None if fleet == now else fleet
