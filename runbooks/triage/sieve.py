"""Which of many lines a pattern may match: all of them joined and looked through at once, with the pattern made looser."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from runbooks.triage.loose import ascii_of, compiled, for_shapes, loose, searched
from runbooks.triage.normal import GUESS, normal
from runbooks.triage.prefixes import PREFIXES
from runbooks.triage.probe import PLAIN
from runbooks.triage.ready import loose_of

SMALLEST, LARGEST = 64, 16384  # lines that are joined
DENSE = 24  # lines let through, most of those looked at, after which the rest are let through unseen


class _Seen(dict[int, bytes]):
    """Lines by position, each worked out when it is first asked for."""

    def __init__(self, lines: Sequence[bytes], guesses: frozenset[int], anchored: bool) -> None:
        self._lines, self._guesses, self._anchored = lines, guesses, anchored

    def __missing__(self, at: int) -> bytes:
        line = self._lines[at]
        if at in self._guesses or not line.isascii() or len(line) > PLAIN or b"\x1b" in line:
            text = self._odd(at, line)
        else:
            found = PREFIXES.match(line)
            text = line[found.end() :] if found else line
        self[at] = text
        return text

    def _odd(self, at: int, line: bytes) -> bytes:
        """A line that guesses, or in which a byte is not always a character, or of which only the ends are looked at."""
        if at in self._guesses:
            return ascii_of(GUESS.sub("", normal(line.decode("utf-8", "replace")).text).encode())
        if self._anchored or len(line) > PLAIN:  # a message begins where the prefixes end
            line = normal(line.decode("utf-8", "replace")).text.encode()
        return searched(line)


class Lines:
    """Lines in the form in which loose patterns are tried on them."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def joined(self, places: Sequence[int], anchored: bool) -> bytes:
        """Some of them."""
        seen = self._forms[anchored]
        return b"\n".join([seen[at] for at in places])

    @cached_property
    def _forms(self) -> tuple[_Seen, _Seen]:
        """For patterns that do not mind where a message begins, and for those that do."""
        text = b"\n".join(self._lines)
        guesses = frozenset(_rows(_guessing(), text.lower()))
        some = _Seen(self._lines, guesses, False)
        is_simple = text.isascii() and b"\x1b" not in text and max(map(len, self._lines)) <= PLAIN
        return some, some if is_simple else _Seen(self._lines, guesses, True)


class Sieve:
    """The fast test of one pattern: lines it lets through may still be none, those it holds back never are any."""

    __slots__ = ("_anchored", "_fast", "_lower")

    def __init__(self, pattern: str, anchored: bool, shapes: bool) -> None:
        text, self._lower = loose_of(pattern)
        self._fast = compiled(for_shapes(text) if shapes else text)
        self._anchored = anchored

    def passed(self, lines: Lines, places: Sequence[int]) -> list[int]:
        """Those of `places` whose lines may match, in order."""
        passed: list[int] = []
        at, size = 0, SMALLEST
        while at < len(places):
            passed += self._of_part(lines, places[at : at + size])
            at, size = at + size, min(size * 4, LARGEST)
        return passed

    def _of_part(self, lines: Lines, places: Sequence[int]) -> list[int]:
        text = lines.joined(places, self._anchored)
        passed: list[int] = []
        for row in _rows(self._fast, text.lower() if self._lower else text):
            passed.append(places[row])
            if len(passed) > max(row / 2, DENSE):
                return [*passed, *places[row + 1 :]]
        return passed


def _rows(fast: Any, text: bytes) -> Iterator[int]:
    """The lines of `text` in which the pattern stands; it never reaches over the end of one."""
    found = fast.search(text)
    if not found:
        return
    starts = [0, *accumulate(len(line) + 1 for line in text.split(b"\n"))]
    while found:
        row = bisect_right(starts, found.start()) - 1
        yield row
        if row + 2 == len(starts):
            return
        found = fast.search(text, starts[row + 1])


@lru_cache(maxsize=1)
def _guessing() -> Any:
    return compiled(loose(f"(?i){GUESS.pattern}")[0])
