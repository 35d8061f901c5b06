"""Says where a run is: to its timeline, the log, and whoever listens (the command line, the fault harness)."""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Literal

from runbooks.core.clean import one_line
from runbooks.core.redact_own import own_text
from runbooks.core.report import Event
from tasks.context import utc_now
from tasks.installation import installation_redactor

log = logging.getLogger("flows.engine")
log.setLevel(logging.INFO)  # these lines are meant for the run's log in the UI
Point = Literal[
    "started", "gathered", "judged", "asking", "decided", "settled", "claimed", "gathered-again", "budgeted",
    "acting", "step-begins", "step-begun", "step-acted", "step-done", "acted", "verified", "problem",
    "reported", "told",
]
"""Where a run is, by a stable name."""
LISTENERS: list[Callable[[str, str], None]] = []
"""Called with (point, text) each time a run reaches a point. Points are stable names: see Point."""


class Timeline:
    """The events of one run, in order."""

    def __init__(self, now: Callable[[], datetime] = utc_now, clean: Callable[[str], str] = str) -> None:
        self._now, self._clean = now, clean
        self.events: list[Event] = []

    def reached(self, point: Point, text: str, logged: str | None = None) -> None:
        """Notes that the run reached `point`. `logged`: what the run's log says of it, where Prefect's own lines say the rest."""
        text = one_line(self._clean(text))
        self.events.append(Event(at=self._now(), what=text))
        if logged != "":
            log.info("%s", text if logged is None else one_line(self._clean(logged)))
        self.passed(point, text)

    def passed(self, point: Point, text: str = "") -> None:
        """Only tells those who listen: a point that is no event of the report."""
        for listener in tuple(LISTENERS):
            listener(point, text)


def run_timeline() -> Timeline:
    """The timeline of a run: its sentences are our own, with secrets replaced as this installation does it."""
    return Timeline(clean=partial(own_text, installation_redactor()))
