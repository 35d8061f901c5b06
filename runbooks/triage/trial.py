"""A pattern tried on the lines that may hold it: its first matches, and from behind its last."""

import re
from functools import cached_property

from runbooks.triage.block import Block
from runbooks.triage.loose import loose, minds_digits, searched, shape
from runbooks.triage.plain import plain
from runbooks.triage.probe import KEEP, PLAIN, Hit, Probe, Raw

VAIN = 64  # lines remembered that are no match, though lines of the same shape may be
HOPELESS = 4000  # lines on which a pattern that is only context has failed, and never matched: it is given up
FEW, MANY = 64, 5000  # lines of a block on which a pattern fails before it is looked for in all of the block


class Page:
    """The lines of one block."""

    def __init__(self, block: Block, order: int, before: "Page | None") -> None:
        data = plain(block.data)
        self.file, self.first, self.order = block.file, block.first, order
        self.lines = data.split(b"\n")
        self.shapes = shape(data).split(b"\n")
        self._before = before.lines[-1] if before and before.file == block.file else b""
        self._data = data
        self.is_simple = data.isascii() and b"\x1b" not in data  # messages begin where prefixes end, as bytes show it
        self._raws: dict[int, Raw] = {}
        self._searched: dict[int, bytes] = {}

    def raw(self, at: int) -> Raw:
        """One line."""
        raw = self._raws.get(at)
        if raw is None:
            before = self.lines[at - 1] if at else self._before
            raw = self._raws[at] = Raw(self.file, self.first + at, self.order + at, self.lines[at], before)
        return raw

    def searched(self, at: int) -> bytes:
        """The same as loose patterns are tried on it."""
        text = self._searched.get(at)
        if text is None:
            line = self.lines[at]
            seen = line if len(line) <= PLAIN else self.raw(at).message.encode()
            text = self._searched[at] = searched(seen)
        return text

    @cached_property
    def lowered(self) -> bytes:
        """All of it in lower case."""
        return self._data.lower()

    @cached_property
    def text(self) -> bytes:
        """All of it as loose patterns are tried on it."""
        if max(map(len, self.lines)) <= PLAIN:
            return searched(self._data)
        return b"\n".join(self.searched(at) for at in range(len(self.lines)))

    @cached_property
    def lowered_text(self) -> bytes:
        """The same in lower case."""
        return self.text.lower()


class Trial:
    """Tries one pattern. On lines alike only once, where their digits make no difference."""

    __slots__ = (
        "_ever",
        "_failed",
        "_fast",
        "_last",
        "_minds",
        "_page",
        "_vain",
        "ended",
        "here",
        "lost",
        "options",
        "probe",
        "sated",
        "words",
    )

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.options, self.words = probe.options, probe.words
        self.sated = False  # has matched often enough: only the last matches are still looked for
        self.ended = False  # these are found as well, in what is held
        self._fast: tuple[re.Pattern[bytes], bool] | None = None
        self._minds: bool | None = None  # its matches depend on digits
        self._last: list[Hit] = []
        self._vain: set[bytes] = set()
        self._page: Page | None = None  # the last page it was tried on
        self.here = True  # whether it may stand on it
        self._failed = self._ever = 0  # lines of it, and of all, on which it did not
        self.lost = False  # given up

    def begin(self, page: Page, at: int) -> bool:
        """Look for one of the first matches. True: nothing more to look for in lines of this shape."""
        hit = self._hit(page, at)
        if isinstance(hit, Hit):
            self.probe.first.append(hit)
            self.probe.count += hit.line.times
            self.sated = len(self.probe.first) == KEEP
        return self.sated or hit is False

    def end(self, page: Page, at: int) -> bool:
        """Look for one of the last, from behind; likewise."""
        if page.order + at <= self.probe.first[-1].line.order:
            self.ended = True
            return True
        hit = self._hit(page, at)
        if isinstance(hit, Hit):
            self._last.append(hit)
            self.ended = len(self._last) == KEEP
        return self.ended or hit is False

    def keep_last(self) -> None:
        """What was found from behind goes to the end of what is kept."""
        self.probe.count += len(self._last)
        self.probe.last.extend(reversed(self._last))
        self._last, self.ended = [], False

    def turn(self, page: Page) -> bool:
        """Before lines of a page are tried: whether the pattern may stand there."""
        if page is not self._page:
            self._page, self._failed, self.here = page, 0, True
        return self.here

    def _hit(self, page: Page, at: int) -> Hit | bool | None:
        """The match. None: it is none. False: no line of this shape is one."""
        if page.lines[at] in self._vain:
            return None
        if not self._may(page, at):
            return None if self._minds_digits() else False
        raw = page.raw(at)
        hit = self.probe.hit(raw)
        if hit is None and not raw.after_frame:
            if not self._minds_digits() and not raw.guessed:
                return False
            self._remember(raw.data)
            self._give_up()
        return hit

    def _give_up(self) -> None:
        """Count a failure; a pattern that is only context has so many tries."""
        self._ever += 1
        if self._ever == HOPELESS and self.probe.context and not self.probe.found:
            self.lost, self.here = True, False

    def _remember(self, line: bytes) -> None:
        if len(self._vain) == VAIN:
            self._vain.clear()
        self._vain.add(line)

    def _may(self, page: Page, at: int) -> bool:
        """The fast test of a line, and of the whole page where it has failed on many lines."""
        if self._fast is None:
            self._fast = loose(self.probe.pattern)
        fast, lower = self._fast
        simple = page.is_simple or not self.probe.anchored
        line = page.searched(at) if simple else searched(page.raw(at).message.encode())
        if fast.search(line.lower() if lower else line):
            return True
        self._failed += 1
        self._give_up()
        if self._failed == FEW and self._minds_digits():
            self.here = self.probe.digits_in(page.lowered)
        if self._failed == MANY and simple and not self.lost:
            self.here = bool(fast.search(page.lowered_text if lower else page.text))
        return False

    def _minds_digits(self) -> bool:
        if self._minds is None:
            self._minds = minds_digits(self.probe.pattern)
        return self._minds
