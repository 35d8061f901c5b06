"""A pattern that is looked for, the lines it is tried on, and the matches that are kept."""

import re
from collections import deque
from collections.abc import Iterable
from functools import cached_property, lru_cache

from runbooks.triage.literals import AND, exact
from runbooks.triage.normal import CODE, FRAME, Normal, normal, without_guesses
from runbooks.triage.quick import PLAIN, quick

KEEP = 8  # first and last matches kept of every pattern
ENOUGH = 24  # matches of a pattern after which lines are only counted, and the last few looked at
ALWAYS = 1_000_000  # tries of a pattern that names digits: never given up
NEVER = (re.compile(b""), False)  # the quick test of a pattern that has none: never a no
_WORD = re.compile(rb"[a-z]{3,}")

Options = tuple[tuple[bytes, ...], ...]
Plan = tuple[Options, Options, bool, int]


class Probe:
    """One pattern to look for."""

    __slots__ = (
        "_exact",
        "_quick",
        "_regex",
        "anchored",
        "context",
        "count",
        "failed",
        "first",
        "framed",
        "last",
        "options",
        "patience",
        "pattern",
        "pending",
        "words",
    )

    def __init__(
        self, pattern: str, literals: Iterable[bytes], context: bool = False, plan: "Plan | None" = None
    ) -> None:
        self.pattern = pattern
        self.context = context  # only ever asked whether it stands in the text: enough is enough
        self.options, self.words, self.anchored, self.patience = plan or plan_of(pattern, tuple(literals))
        self._regex: re.Pattern[str] | None = None
        self._exact: tuple[tuple[bytes, ...], ...] | None = None
        self._quick: tuple[re.Pattern[bytes], bool] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was found."""
        self.count = self.failed = 0
        self.framed = 0  # matches in stack frames and source lines: context, never evidence
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=KEEP)
        self.pending: deque[Raw] = deque(maxlen=ENOUGH)

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

    def digits_in(self, lowered: bytes) -> bool:
        """Whether a text that holds the folded literals also holds the digits that the pattern names."""
        if self._exact is None:
            self._exact = exact(self.pattern)
        return not self._exact or any(all(part in lowered for part in option) for option in self._exact)

    def may_match(self, line: bytes, lowered: bytes) -> bool:
        """False: it is certain that the pattern does not match this line. Cheaper than `look`."""
        if len(line) > PLAIN:
            return True
        if self._quick is None:
            self._quick = quick(self.pattern) or NEVER
        regex, lower = self._quick
        if regex.search(lowered if lower else line):
            return True
        self.failed += 1
        return False

    def look(self, raw: "Raw") -> bool:
        """Try one line that holds the pattern's literal. False: it did not match."""
        if self.count >= ENOUGH:
            self.count += 1
            self.pending.append(raw)
            return True
        return self._try(raw)

    def finish(self) -> None:
        """Look at the last lines that were only counted."""
        for raw in self.pending:
            self._try(raw, counted=True)
        self.pending.clear()

    def _try(self, raw: "Raw", counted: bool = False) -> bool:
        found = self.regex.search(raw.message if self.anchored or len(raw.data) > PLAIN else raw.text)
        if found:
            found = self.regex.search(raw.certain)
        if not found or raw.frame:
            self.framed += bool(found)
            self.failed += not found
            self.count -= counted
            return bool(found)
        hit = Hit(raw, found.groupdict())
        self.count += 0 if counted else raw.times
        if len(self.first) < KEEP:
            self.first.append(hit)
        else:
            self.last.append(hit)
        return True


@lru_cache(maxsize=8192)
def plan_of(pattern: str, literals: tuple[bytes, ...]) -> Plan:
    """Options of which all texts of one stand in the line; their longest words; whether prefixes matter; patience."""
    options = tuple(tuple(t.split(AND)) for t in literals)
    words = tuple(tuple(max(_WORD.findall(t), key=len, default=b"") for t in o) for o in options)
    return options, words, "^" in pattern, _patience(pattern)  # `^`: what stands before a message is taken off first


def _patience(pattern: str) -> int:
    """How many lines that differ only in digits are tried before the pattern is given up on them."""
    plain = re.sub(r"\{\d+(?:,\d*)?\}|\[[^\]]*\]", "", pattern)
    return ALWAYS if re.search(r"\d", plain) else 8 if "\\d" in pattern else 2


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
