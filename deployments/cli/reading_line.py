"""What a run reads right now, in one line of a terminal that the next event of the run replaces."""

import sys
from threading import Lock

from deployments.cli.terminal import rewrite
from runbooks.core.clean import one_line

WIDTH = 76  # columns; a longer line would break and stay


class ReadingLine:
    """The events of a run on standard error. On a terminal also each reading as it begins; on a pipe the events alone."""

    def __init__(self, on: bool | None = None) -> None:
        self._on = sys.stderr.isatty() if on is None else on
        self._shown, self._lock = False, Lock()  # readings begin in threads

    def begins(self, name: str) -> None:
        """A reading has begun."""
        if not self._on:
            return
        with self._lock:
            rewrite(f"  … {one_line(name, WIDTH - 4):<{WIDTH - 4}}")
            self._shown = True

    def passed(self, _point: str, text: str) -> None:
        """An event of the run."""
        with self._lock:
            self._take_away()
            print(f"  {text}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Takes the line away."""
        with self._lock:
            self._take_away()

    def _take_away(self) -> None:
        if self._shown:
            rewrite(" " * WIDTH)
            rewrite("")
            self._shown = False
