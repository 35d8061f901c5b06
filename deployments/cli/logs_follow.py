"""`logs --follow`: what is new in each source, in the order of time within a look, until interrupted."""

import json
import select
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from deployments.cli.logs_shown import Redact, event_data, event_lines
from runbooks.core.clean import one_line
from runbooks.core.reading import ODD_ANSWER
from runbooks.parsers.logs.event import LoggedEvent
from runbooks.parsers.logs.merge import merged
from tasks.transport.base import TransportError

if TYPE_CHECKING:
    from tasks.clients.logs.source import LogSource

LOOK_EVERY_S = 1.0
AGAIN_EVERY_S = 60.0  # a trouble that goes on is said again


class Follower:
    """Looks at all sources again and again. `fits`: whether an event is asked for."""

    def __init__(
        self, sources: "list[LogSource]", fits: Callable[[LoggedEvent], bool], redact: Redact, as_json: bool
    ) -> None:
        self._sources, self._fits, self._redact, self._json = sources, fits, redact, as_json
        self._next: dict[int, float] = {}  # when a source is looked at again
        self._said: dict[tuple[str, str], float] = {}

    def look(self) -> int:
        """One look at each; how many events it gave. Raises BrokenPipeError where nobody reads any more."""
        events: list[LoggedEvent] = []
        now = time.monotonic()
        for at, source in enumerate(self._sources):
            if now < self._next.get(at, now):
                continue
            self._next[at] = now + source.every_s
            try:
                new, notes = source.poll()
                events += new
            except TransportError as e:
                notes = (f"not read: {e.why}",)
            except ODD_ANSWER as e:
                notes = (f"not read: its answer has a form that is not known ({type(e).__name__})",)
            for note in notes:
                self._say(source.name, note)
        shown = [e for e in merged(events) if self._fits(e)]
        for event in shown:
            if self._json:
                print(json.dumps(event_data(event, self._redact)))
            else:
                print("\n".join(event_lines(event, self._redact)))
        sys.stdout.flush()
        return len(shown)

    def _say(self, name: str, note: str) -> None:
        now = time.monotonic()
        if now - self._said.get((name, note), -AGAIN_EVERY_S) < AGAIN_EVERY_S:
            return
        self._said[(name, note)] = now
        text = one_line(self._redact(note), 500)
        if self._json:
            print(json.dumps({"source": name, "note": text}))
        else:
            print(f"-- {one_line(name, 60)}: {text}")

    def follow(self) -> None:
        """Until interrupted, or until nobody reads any more."""
        while True:
            self.look()
            if _unread():
                raise BrokenPipeError
            time.sleep(LOOK_EVERY_S)


def _unread() -> bool:
    """Whether the pipe that is written to has lost its reader: a silent log would never notice."""
    try:
        out = select.poll()
        out.register(sys.stdout.fileno(), 0)
        return any(what & (select.POLLERR | select.POLLHUP) for _, what in out.poll(0))
    except (OSError, ValueError):
        return False
