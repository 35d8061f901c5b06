"""The lines that are held of a long text, and what stands around one of them."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from runbooks.triage.literals import fold
from runbooks.triage.moments import Moment, moment
from runbooks.triage.probe import Hit, Matcher, Plan, Raw
from runbooks.triage.trial import Page

NEAR = 200  # lines before and after that are about the same thing, for each one who speaks among them
FARTHEST = 2000  # lines; however many speak, and however fast
MOMENT = 30  # seconds: lines farther away than NEAR still belong to it while so little time lies between
ABOVE = 20  # lines above one without a stamp in which its time is looked for
CHUNK = 100  # lines that are searched at once
_SPEAKER = re.compile(
    rb"(?m)^(?:[^\n]{0,30}?(\[?[Rr]ank ?\d+\]?:)|(\[\d+\]:)|(\([^)\n]{0,80}pid=\d+[^)\n]{0,40}\))|([\w.-]+:\d+):\d+ \[\d+\] NCCL"
    rb"|([\w.-]{1,60}) +\| |(\[pod/[^\]\n]+\])|([a-z][\w.-]*\d): |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) )"
)


class LineBuffer:
    """Pages in order. Patterns are looked for only where they are asked about."""

    def __init__(self, plans: Mapping[str, tuple[bool, Plan]]) -> None:
        self._plans = plans
        self._pages: list[Page] = []
        self._starts: list[int] = []
        self._probes: dict[str, Matcher] = {}
        self._chunk: dict[tuple[int, int], Chunk] = {}
        self._found: dict[tuple[int, int, str], list[Hit]] = {}
        self._times: dict[int, Moment | None] = {}
        self._stamps: dict[int, Moment | None] = {}
        self._reaches: dict[int, tuple[int, int]] = {}

    @property
    def end(self) -> int:
        """Number of lines up to the end of what is held."""
        return self._pages[-1].order + len(self._pages[-1].lines) if self._pages else 0

    def take(self, pages: Sequence[Page]) -> None:
        """Hold these as well."""
        self._hold([*self._pages, *pages])

    def drop(self) -> None:
        """Hold only what surrounds the last lines, which are still to be judged."""
        self._hold([p for p in self._pages if p.order + len(p.lines) > self.end - 2 * FARTHEST][-4:])

    def _hold(self, pages: list[Page]) -> None:
        self._pages = pages
        self._starts = [p.order for p in pages]
        for memo in (self._chunk, self._found, self._times, self._stamps, self._reaches):
            memo.clear()

    def hits(self, pattern: str, low: int, high: int) -> Iterator[Hit]:
        """Where it stands from line `low` to line `high`, stack frames included."""
        for page, at in self._chunks(low, high):
            yield from (h for h in self._in(page, at, pattern) if low <= h.line.order <= high)

    def around(self, line: Raw) -> tuple[int, int]:
        """First and last line of what is about the same thing."""
        if line.order not in self._reaches:
            near = self._chunks(line.order - NEAR, line.order + NEAR)
            speakers = len({s for page, at in near for s in self._lines(page, at).speakers})
            reach = min(NEAR * max(speakers, 1), FARTHEST)
            when = self.when(line)
            low, high = self._reach(line, -reach, when), self._reach(line, reach, when)
            self._reaches[line.order] = line.order - low, line.order + high
        return self._reaches[line.order]

    def when(self, line: Raw) -> Moment | None:
        """Its time, or that of the nearest line above it."""
        if line.order not in self._times:
            self._times[line.order] = self._when(line)
        return self._times[line.order]

    def _when(self, line: Raw) -> Moment | None:
        for back in range(ABOVE):
            order = line.order - back
            data = self._line(order, line.file)
            if data is None:
                return None
            if found := self._stamp(order, data):
                return found
        return None

    def _stamp(self, order: int, data: bytes) -> Moment | None:
        if order not in self._stamps:
            self._stamps[order] = moment(data)
        return self._stamps[order]

    def _reach(self, line: Raw, reach: int, when: Moment | None) -> int:
        """Lines on one side: at least `reach`, more where little time has passed over there."""
        while when and abs(reach) < FARTHEST:
            farther = reach + (NEAR if reach > 0 else -NEAR)
            data = self._line(line.order + farther, line.file)
            then = moment(data) if data is not None else when
            if then is None or (then.apart(when) or 0) > MOMENT:
                break
            reach = farther
        return abs(reach)

    def _line(self, order: int, file: str) -> bytes | None:
        at = bisect_right(self._starts, order) - 1
        if at < 0 or self._pages[at].file != file or order >= self.end:
            return None
        return self._pages[at].lines[order - self._starts[at]]

    def _chunks(self, low: int, high: int) -> Iterator[tuple[Page, int]]:
        for page in self._pages[max(bisect_right(self._starts, low) - 1, 0) : bisect_right(self._starts, high)]:
            first = max(low - page.order, 0) // CHUNK
            last = min(high - page.order, len(page.lines) - 1) // CHUNK
            yield from ((page, at) for at in range(first, last + 1))

    def _in(self, page: Page, at: int, pattern: str) -> list[Hit]:
        key = (page.order, at, pattern)
        found = self._found.get(key)
        if found is None:
            probe = self._probe(pattern)
            raws = (page.raw(at * CHUNK + n) for n in self._lines(page, at).may(probe))
            found = self._found[key] = [Hit(r, m.groupdict()) for r in raws if (m := probe.match(r))]
        return found

    def _lines(self, page: Page, at: int) -> "Chunk":
        key = (page.order, at)
        if key not in self._chunk:
            self._chunk[key] = Chunk(page.lines[at * CHUNK : (at + 1) * CHUNK])
        return self._chunk[key]

    def _probe(self, pattern: str) -> Matcher:
        if pattern not in self._probes:
            self._probes[pattern] = Matcher(pattern, (), plan=self._plans[pattern][1])
        return self._probes[pattern]


class Chunk:
    """Lines that are searched at once."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._raw = b"\n".join(lines)
        self._blob = fold(self._raw)
        self._lines = self._blob.split(b"\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._stand: dict[bytes, bool] = {}

    @cached_property
    def speakers(self) -> frozenset[bytes]:
        """Who says these lines: ranks, actors, hosts, containers."""
        return frozenset(s for groups in _SPEAKER.findall(self._raw) for s in groups if s)

    def may(self, probe: Matcher) -> list[int]:
        """Numbers of the lines in which the texts stand that the pattern needs."""
        if not probe.options:
            return list(range(len(self._lines)))
        return sorted({n for option in probe.options if self._has(option[0]) for n in self._with(option)})

    def _has(self, text: bytes) -> bool:
        stands = self._stand.get(text)
        if stands is None:
            stands = self._stand[text] = text in self._blob
        return stands

    def _with(self, option: tuple[bytes, ...]) -> Iterator[int]:
        at = self._blob.find(option[0])
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            line = self._lines[number]
            if all(text in line for text in option):
                yield number
            at = self._blob.find(option[0], self._starts[number + 1])
