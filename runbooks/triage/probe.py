"""A pattern that is looked for, the lines it is tried on, and the matches that are kept."""

import re
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache

from runbooks.triage.literals import AND
from runbooks.triage.normal import CODE, FRAME, Normal, normal, without_guesses

KEEP = 8  # first and last matches kept of every pattern
PLAIN = 4000  # longer lines keep only their ends before they are matched
_WORD = re.compile(rb"[a-z]{3,}")

Options = tuple[tuple[bytes, ...], ...]
Plan = tuple[Options, Options, bool]


class Matcher:
    """One pattern to look for."""

    __slots__ = (
        "_regex",
        "anchored",
        "context",
        "count",
        "counts",
        "first",
        "framed",
        "last",
        "options",
        "pattern",
        "words",
    )

    def __init__(
        self, pattern: str, literals: Iterable[bytes], context: bool = False, plan: "Plan | None" = None
    ) -> None:
        self.pattern = pattern
        self.context = context  # only ever asked whether it stands in the text: enough is enough
        self.options, self.words, self.anchored = plan or plan_of(pattern, tuple(literals))
        self.counts: Callable[[str], bool] | None = None  # which of the lines that it matches count
        self._regex: re.Pattern[str] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was found."""
        self.count = 0
        self.framed = 0  # matches in stack frames and source lines: context, never evidence
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=KEEP)

    @property
    def regex(self) -> re.Pattern[str]:
        """Compiled when first needed."""
        if self._regex is None:
            self._regex = compiled(self.pattern)
        return self._regex

    @property
    def found(self) -> bool:
        """Whether it stands anywhere in the text, stack frames included."""
        return self.count + self.framed > 0

    @property
    def hits(self) -> tuple["Hit", ...]:
        """First and last matches in order."""
        return (*self.first, *self.last)

    def keeps(self, hit: "Hit") -> bool:
        """Whether the match counts."""
        return self.counts is None or self.counts(hit.line.certain)

    @property
    def full(self) -> bool:
        """Whether there may be matches that were not kept."""
        return len(self.last) == KEEP

    def stands(self, raw: "Raw") -> bool:
        """Whether it matches the line at all, guesses or not."""
        return bool(self.regex.search(raw.message if self.anchored or len(raw.data) > PLAIN else raw.text))

    def match(self, raw: "Raw") -> "re.Match[str] | None":
        """Its match on a line, guesses left out."""
        return self.regex.search(raw.certain) if self.stands(raw) else None

    def hit(self, raw: "Raw") -> "Hit | None":
        """Its match on a line that is evidence. A match in a stack frame is only remembered as one."""
        found = self.match(raw)
        if not found:
            return None
        if raw.frame:
            self.framed += 1
            return None
        return Hit(raw, found.groupdict())


@lru_cache(maxsize=8192)
def plan_of(pattern: str, literals: tuple[bytes, ...]) -> Plan:
    """Options of which all texts of one stand in the line; their longest words; whether prefixes matter."""
    options = tuple(tuple(t.split(AND)) for t in literals)
    words = tuple(tuple(max(_WORD.findall(t), key=len, default=b"") for t in o) for o in options)
    return options, words, "^" in pattern  # `^`: what stands before a message is taken off first


@lru_cache(maxsize=8192)
def compiled(pattern: str) -> "re.Pattern[str]":
    """Compiled once per process."""
    return re.compile(pattern)


class Raw:
    """A line that a pattern may match. What costs time is worked out when it is first asked for."""

    def __init__(self, file: str, number: int, order: int, data: bytes, before: bytes = b"") -> None:
        self.file, self.number, self.order = file, number, order
        self.data, self._before = data, before

    @cached_property
    def text(self) -> str:
        """The line as it stands."""
        return self.data.decode("utf-8", "replace")

    @cached_property
    def frame(self) -> bool:
        """Whether it is a stack frame or the source line of one: context, never evidence."""
        return bool(FRAME.match(self.text) or (_is_frame(self._before) and CODE.match(self.text)))

    @property
    def after_frame(self) -> bool:
        """Whether the line above is a stack frame: what it says then depends on that."""
        return _is_frame(self._before)

    @cached_property
    def cooked(self) -> Normal:
        """Prefixes taken off."""
        return normal(self.text)

    @property
    def message(self) -> str:
        """What patterns are searched in."""
        return self.cooked.text

    @property
    def rank(self) -> str:
        """Who said it."""
        return self.cooked.rank

    @property
    def times(self) -> int:
        """How often, where the line says so."""
        return self.cooked.times

    @property
    def guessed(self) -> bool:
        """Whether some of the message is no more than a guess."""
        return self.certain != self.message

    @cached_property
    def certain(self) -> str:
        """The message without guesses."""
        return without_guesses(self.message)


class Hit:
    """A match: where, and what its named groups took."""

    __slots__ = ("groups", "line")

    def __init__(self, line: Raw, groups: dict[str, str | None]) -> None:
        self.line = line
        self.groups = {k: v for k, v in groups.items() if v is not None}


def _is_frame(line: bytes) -> bool:
    return b'File "' in line and b", line " in line
