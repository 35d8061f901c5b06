"""Finds the lines on which patterns match, in one pass over blocks of text, in bounded memory.

Of every pattern the first and the last matches are kept, and no line that could be one of them is left untried: the first
as the text goes by, the last from behind, in as much of the text as is held.
"""

from collections.abc import Callable, Iterable, Sequence

from runbooks.triage.block import Block
from runbooks.triage.kinds import Kinds
from runbooks.triage.probe import Matcher
from runbooks.triage.trial import Page, Trial

WINDOW = 8 << 20  # bytes of text that are held
BACK = 4096  # last lines that are looked at first: most patterns that stand often stand there


class Scanner:
    """Feeds blocks to probes. One per text; probes keep the result."""

    def __init__(
        self,
        probes: Iterable[Matcher],
        look: Callable[[Sequence[Page]], None] | None = None,
        words: frozenset[bytes] | None = None,
    ) -> None:
        self._look = look  # what else wants to see the text that is held, when the matches in it are known
        self._trials = [Trial(p) for p in probes]
        self._kinds = Kinds(self._trials, words)
        self._window: list[Page] = []
        self._held = 0
        self._file, self._above = "", b""
        self.lines = 0

    def feed(self, block: Block) -> None:
        """Look through one block of whole lines."""
        page = Page(block, self.lines, self._above if block.file == self._file else b"")
        self._file, self._above = block.file, page.lines[-1]
        for trial, places in self._kinds.pick(page.shapes, _hungry).items():
            trial.begin(page, places, self._kinds.forget)
        self._window.append(page)
        self.lines += len(page.lines)
        self._held += len(block.data)
        if self._held > WINDOW:
            self.finish()

    def finish(self) -> None:
        """The last matches in what is held."""
        trials = [t for t in self._trials if t.sated]
        kinds = Kinds(trials)
        for page in reversed(self._window):
            begin = max(len(page.lines) - BACK, 0) if page is self._window[-1] else 0
            for start, stop in ((begin, len(page.lines)), (0, begin)):
                if any(map(_open, trials)):
                    for trial, places in kinds.pick(page.shapes[start:stop], _open).items():
                        trial.end(page, [start + at for at in places], start, kinds.forget)
        for trial in trials:
            trial.keep_last()
        if self._look:
            self._look(self._window)
        self._window.clear()
        self._held = 0


def _hungry(trial: Trial) -> bool:
    return not trial.sated


def _open(trial: Trial) -> bool:
    return not trial.ended
