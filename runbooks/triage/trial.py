"""A pattern tried on the lines that may hold it: its first matches, and from behind its last."""

from collections.abc import Callable, Iterator, Sequence

from runbooks.triage.block import Block
from runbooks.triage.loose import SHAPE, alike_to, shape
from runbooks.triage.normal import GUESS
from runbooks.triage.plain import plain
from runbooks.triage.probe import KEEP, Hit, Matcher, Raw
from runbooks.triage.quoted import QUOTED
from runbooks.triage.ready import alike_of
from runbooks.triage.sieve import Lines, Sieve

VAIN = 1024  # lines remembered that are no match, though lines of the same shape may be
GUESSES_ALIKE = alike_to(f"{GUESS.pattern}|{QUOTED.pattern}")
FEW = 24  # lines on which a pattern is tried as it is before its looser form is worth while
MANY = 2000  # lines of a block, of which one that its digits decide is first tried on the shape
FIRST = 32  # lines that are looked through at once at first; then four times as many, and so on

Forget = Callable[[bytes, "Trial"], None]


class Page:
    """The lines of one block."""

    def __init__(self, block: Block, order: int, before: bytes) -> None:
        data = plain(block.data)
        self.file, self.first, self.order = block.file, block.first, order
        self.lines = data.split(b"\n")
        self.shapes = shape(data).split(b"\n")
        self.seen = Lines(self.lines)
        self._before = before  # the line above, of the same file
        self._raws: dict[int, Raw] = {}

    def raw(self, at: int) -> Raw:
        """One line."""
        raw = self._raws.get(at)
        if raw is None:
            before = self.lines[at - 1] if at else self._before
            raw = self._raws[at] = Raw(self.file, self.first + at, self.order + at, self.lines[at], before)
        return raw


class Trial:
    """Tries one pattern. On lines alike only once, where their digits make no difference."""

    __slots__ = ("_guesses", "_last", "_of_lines", "_of_shapes", "_table", "_tried", "_vain", "ended", "options", "probe", "sated", "words")

    def __init__(self, probe: Matcher) -> None:
        self.probe = probe
        self.options, self.words = probe.options, probe.words
        self.sated = False  # has matched often enough: only the last matches are still looked for
        self.ended = False  # these are found as well, in what is held
        self._of_shapes: Sieve | None = None
        self._of_lines: Sieve | None = None
        self._table: bytes | None = None
        self._last: list[Hit] = []
        self._vain: set[bytes] = set()
        self._guesses = False  # some of these would be a match, were they not a log's own guess
        self._tried = 0

    def sifted(self, shapes: Lines, places: list[int], lines: int) -> list[int]:
        """Places without those where no line of that shape is a match; so many lines have these shapes."""
        if self._of_shapes is None:
            self._tried += len(places)
            if self._tried < FEW and (lines < MANY or not self.minds_digits):
                return places
            self._of_shapes = Sieve(self.probe.pattern, self.probe.anchored, True)
        return self._of_shapes.passed(shapes, places)

    def begin(self, page: Page, places: Sequence[int], forget: Forget) -> None:
        """Look for the first matches in these lines, in order."""
        for hit in self._hits(page, _parts(places, 1), forget):
            self.probe.first.append(hit)
            self.probe.count += hit.line.times
            if len(self.probe.first) == KEEP:
                self.sated = True
                return

    def end(self, page: Page, places: Sequence[int], start: int, forget: Forget) -> None:
        """Look for the last, from behind, down to the line `start`."""
        after = self.probe.first[-1].line.order - page.order
        for hit in self._hits(page, _parts([at for at in places if at > after], -1), forget):
            self._last.append(hit)
            if len(self._last) == KEEP:
                self.ended = True
                return
        self.ended = after >= start

    def keep_last(self) -> None:
        """What was found from behind goes to the end of what is kept."""
        self.probe.count += len(self._last)
        self.probe.last.extend(reversed(self._last))
        self._last, self.ended = [], False

    @property
    def minds_digits(self) -> bool:
        """Whether it may match one line and not another of the same shape."""
        return self._alike != SHAPE

    @property
    def _alike(self) -> bytes:
        """What makes lines alike to it."""
        if self._table is None:
            self._table = alike_of(self.probe.pattern)
        return self._table

    def _hits(self, page: Page, parts: Iterator[Sequence[int]], forget: Forget) -> Iterator[Hit]:
        done: set[bytes] = set()
        for part in parts:
            for at in self._left(page, part):
                if done and page.shapes[at] in done:
                    continue
                hit = self._hit(page, at)
                if isinstance(hit, Hit):
                    if self.probe.keeps(hit):
                        yield hit
                elif hit is False:
                    done.add(page.shapes[at])
                    forget(page.shapes[at], self)

    def _left(self, page: Page, part: Sequence[int]) -> Sequence[int]:
        if len(part) < FEW or not self.minds_digits:
            return part
        if self._of_lines is None:
            self._of_lines = Sieve(self.probe.pattern, self.probe.anchored, False)
        return self._of_lines.passed(page.seen, part)

    def _hit(self, page: Page, at: int) -> Hit | bool | None:
        """The match. None: it is none. False: no line of this shape is one."""
        line = page.lines[at]
        key = line.translate(self._alike)
        if key in self._vain or (self._guesses and _with_guesses(key, line) in self._vain):
            return None
        raw = page.raw(at)
        if not self.probe.stands(raw):
            return self._failed(key)
        hit = self.probe.hit(raw)
        if hit is None and not raw.after_frame:
            if not raw.guessed:
                return self._failed(key)
            self._guesses = True
            self._remember(_with_guesses(key, line))
        return hit

    def _failed(self, key: bytes) -> bool | None:
        """What that says of other lines."""
        if not self.minds_digits:
            return False
        self._remember(key)
        return None

    def _remember(self, key: bytes) -> None:
        if len(self._vain) == VAIN:
            self._vain.clear()
        self._vain.add(key)


def _with_guesses(key: bytes, line: bytes) -> bytes:
    """To what is a guess other digits may matter than to the pattern."""
    return b"%b\n%b" % (key, line.translate(GUESSES_ALIKE))


def _parts(places: Sequence[int], step: int) -> Iterator[Sequence[int]]:
    """Growing parts from the beginning (1) or from behind (-1), each in that order."""
    at, size = 0, FIRST
    places = places[::step]
    while at < len(places):
        yield places[at : at + size]
        at, size = at + size, size * 4
