"""Finds the lines on which patterns match, in one pass over blocks of text, in bounded memory.

Most log lines are alike but for their numbers. Lines are folded (lower case, digits out) and each new folded line is
searched once for the texts that the patterns cannot do without; regular expressions run only on lines that hold one.
Of every pattern the first and the last matches are kept.
"""

import re
from collections import deque
from collections.abc import Iterable
from functools import cached_property, lru_cache

from runbooks.triage.literals import AND, exact, fold
from runbooks.triage.normal import CODE, FRAME, Normal, normal, without_guesses
from runbooks.triage.sources import Block

KEEP = 8  # first and last matches kept of every pattern
ENOUGH = 64  # matches of a pattern after which lines are only counted, and the last few looked at
REMEMBER = 48 << 20  # bytes of folded lines remembered as uninteresting
SMALL = 65536
ALWAYS = 1_000_000  # tries of a pattern that names digits: never given up
_WORD = re.compile(rb"[a-z]{3,}")


class Probe:
    """One pattern to look for."""

    __slots__ = (
        "_exact",
        "_regex",
        "count",
        "first",
        "framed",
        "last",
        "literals",
        "others",
        "patience",
        "pattern",
        "pending",
        "words",
    )

    def __init__(self, pattern: str, literals: Iterable[bytes]) -> None:
        self.pattern = pattern
        options = tuple(tuple(t.split(AND)) for t in literals)
        self.literals = tuple(o[0] for o in options)
        self.others = tuple(o[1:] for o in options)
        self.words = tuple(max(_WORD.findall(t), key=len, default=b"") for t in self.literals)
        self.patience = _patience(pattern)
        self._regex: re.Pattern[str] | None = None
        self._exact: tuple[tuple[bytes, ...], ...] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was found."""
        self.count = 0
        self.framed = 0  # matches in stack frames and source lines: context, never evidence
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=KEEP)
        self.pending: deque[Raw] = deque(maxlen=KEEP)

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

    def may_match(self, lowered: bytes) -> bool:
        """Whether a line that holds the folded text also holds the digits that the pattern names."""
        if self.patience < ALWAYS:
            return True
        if self._exact is None:
            self._exact = exact(self.pattern)
        return not self._exact or any(all(part in lowered for part in option) for option in self._exact)

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
        found = self.regex.search(raw.message)
        if found:
            found = self.regex.search(raw.certain)
        if not found or raw.frame:
            self.framed += bool(found)
            self.count -= counted
            return bool(found)
        hit = Hit(raw, found.groupdict())
        self.count += 0 if counted else raw.times
        if len(self.first) < KEEP:
            self.first.append(hit)
        else:
            self.last.append(hit)
        return True


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
        self._data, self._before = data, before

    @cached_property
    def text(self) -> str:
        """The line as it stands."""
        return self._data.decode("utf-8", "replace")

    @cached_property
    def frame(self) -> bool:
        """Whether it is a stack frame or the source line of one: context, never evidence."""
        return bool(FRAME.match(self.text) or (_is_frame(self._before) and CODE.match(self.text)))

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


class Scanner:
    """Feeds blocks to probes. One per text; probes keep the result."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self.probes = tuple(probes)
        self.lines = 0
        self._boring: set[bytes] = set()
        self._bored = 0
        self._interesting: dict[bytes, dict[Probe, int]] = {}  # folded line -> probes and how often they failed on it
        self._always = tuple(p for p in self.probes if not p.literals)

    def feed(self, block: Block) -> None:
        """Look through one block of whole lines."""
        raw = block.data
        if b"\x1b" in raw:
            raw = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", raw)
        folded = fold(raw).split(b"\n")
        fresh = {t for t in set(folded) if t not in self._boring and t not in self._interesting}
        if fresh:
            self._learn(fresh)
        known = self._interesting
        picked = [i for i, t in enumerate(folded) if t in known]
        if picked:
            self._try(block, raw.split(b"\n"), folded, picked)
        self.lines += len(folded)

    def finish(self) -> None:
        """After the last block."""
        for probe in self.probes:
            probe.finish()

    def _learn(self, fresh: set[bytes]) -> None:
        lines = sorted(fresh)
        blob = b"\n".join(lines)
        matched: dict[bytes, list[Probe]] = {}
        for literal, probes in self._likely(blob).items():
            for line in _lines_with(blob, literal):
                fit = [p for p, others in probes if all(o in line for o in others)]
                if fit:
                    matched.setdefault(line, []).extend(fit)
        for line in lines:
            tried = (*dict.fromkeys(matched.get(line, ())), *self._always)
            if tried:
                self._interesting[line] = dict.fromkeys(tried, 0)
            else:
                self._forgo(line)
        self._forget()

    def _forgo(self, line: bytes) -> None:
        self._boring.add(line)
        self._bored += len(line)

    def _likely(self, blob: bytes) -> dict[bytes, list[tuple[Probe, tuple[bytes, ...]]]]:
        """Literals whose longest word stands in the text, with their probes and what else those need in the line."""
        words = blob if len(blob) < SMALL else b" ".join(set(_WORD.findall(blob)))
        found: dict[bytes, list[tuple[Probe, tuple[bytes, ...]]]] = {}
        checked: dict[bytes, bool] = {}
        for probe in self.probes:
            for literal, word, others in zip(probe.literals, probe.words, probe.others, strict=True):
                if word not in checked:
                    checked[word] = word in words
                if checked[word]:
                    found.setdefault(literal, []).append((probe, others))
        return found

    def _forget(self) -> None:
        if self._bored > REMEMBER:
            self._boring.clear()
            self._bored = 0
        if len(self._interesting) > 100_000:
            self._interesting.clear()

    def _try(self, block: Block, raw: list[bytes], folded: list[bytes], picked: list[int]) -> None:
        for i in picked:
            probes = self._interesting.get(folded[i])
            lowered = raw[i].lower()
            wanted = [p for p in probes or () if p.may_match(lowered)]
            if wanted and probes is not None:
                line = Raw(block.file, block.first + i, self.lines + i, raw[i], raw[i - 1] if i else b"")
                self._look(folded[i], line, wanted, probes)

    def _look(self, folded: bytes, line: "Raw", wanted: list[Probe], probes: dict[Probe, int]) -> None:
        """Try the probes of a folded line; those that keep failing on its kind are given up."""
        for probe in wanted:
            if not probe.look(line):
                probes[probe] += 1
                if probes[probe] >= probe.patience:
                    del probes[probe]
        if not probes:
            del self._interesting[folded]
            self._forgo(folded)


def _is_frame(line: bytes) -> bool:
    return b'File "' in line and b", line " in line


def _lines_with(blob: bytes, literal: bytes) -> Iterable[bytes]:
    at = blob.find(literal)
    while at >= 0:
        end = blob.find(b"\n", at)
        end = len(blob) if end < 0 else end
        yield blob[blob.rfind(b"\n", 0, at) + 1 : end]
        at = blob.find(literal, end)
