"""Judges the conditions of signatures around each match, in a text too long to be about one thing.

A log of many runs holds every word somewhere. So in a text of more than SMALL lines a condition counts only near the match
(runbooks/triage/line_buffer.py says what near is), or in a small file that came along in the same bundle. It is judged while
the lines are held, and of the matches on which a signature stands the first and the last are kept.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

from runbooks.core.knowledge import Reach, Signature
from runbooks.triage import facts as facts_of
from runbooks.triage.expr import Value, holds, names, number
from runbooks.triage.facts import Facts
from runbooks.triage.line_buffer import FARTHEST, LineBuffer
from runbooks.triage.load import FactKnowledge, FamilyCause, RuleSet
from runbooks.triage.moments import Moment, moment
from runbooks.triage.probe import KEEP, Hit, Matcher, Raw
from runbooks.triage.trial import Page

SMALL = 400  # lines; a text, or a file of a bundle, that is no longer is about one thing
APART = 6 * 3600  # seconds between two lines that have nothing to do with each other, however close they stand
TOGETHER = 3600  # seconds between lines of two long files that may belong together
LAST = 2  # matches in the lines of one look that are judged where a signature has stood often enough
NEAREST = 4  # matches that are judged around a line that they need, where they stand too often to be all judged


class Stand:
    """A match, and what it still lacks: conditions that another file of the bundle may meet."""

    def __init__(self, hit: Hit, lines: list[Raw], lacks: list[tuple[str, ...]], facts: Facts) -> None:
        self.hit, self.lines, self.lacks, self.facts = hit, lines, lacks, facts


class ConditionalSignature:
    """A signature with conditions on what stands around its match."""

    def __init__(self, cause: FamilyCause, signature: Signature, fact_names: frozenset[str]) -> None:
        self.signature = signature
        self.needs = [(p,) for p in signature.needs] + ([cause.only_when] if cause.only_when else [])
        self.unless = (*signature.unless, *cause.never_when)
        self.facts = sorted({n for c in signature.where for n in names(c)} & fact_names)
        self.firm: tuple[list[Stand], deque[Stand]] = ([], deque(maxlen=KEEP))
        self.open: tuple[list[Stand], deque[Stand]] = ([], deque(maxlen=KEEP))

    @property
    def conditional(self) -> bool:
        """Whether it asks for anything but its own line."""
        s = self.signature
        return bool(self.needs or self.unless or self.facts or s.near or s.not_near or s.recovered)

    @property
    def full(self) -> bool:
        """Whether it stood as often as is kept of the first."""
        return len(self.firm[0]) == KEEP

    def keep(self, stand: Stand, firmly: bool) -> None:
        """Of those that stand the first and the last."""
        first, last = self.firm if firmly else self.open
        (first if len(first) < KEEP else last).append(stand)


class Around:
    """The conditional signatures of a library, judged as the text goes by."""

    def __init__(self, lib: RuleSet, probes: Mapping[str, Matcher], given: Facts) -> None:
        self._lib, self._probes, self._given = lib, probes, given
        self._buffer = LineBuffer(lib.plans)
        self._unknown = frozenset(lib.facts) - given.keys()
        self._asked: dict[
            int, ConditionalSignature | None
        ] = {}  # by the signature's identity, of those whose pattern stands somewhere
        self._waiting: list[tuple[ConditionalSignature, Hit, bool]] = []
        self._files: Counter[str] = Counter()
        self._since = 0  # the line from which matches have not been seen yet

    def look(self, pages: Sequence[Page]) -> None:
        """Judge the matches in these pages, but for those that more lines may still say something about."""
        for page in pages:
            self._files[page.file] += len(page.lines)
        self._buffer.take(pages)
        if self._buffer.end > SMALL:
            self._ask()
            self._waiting += [w for a in self._asked.values() if a for w in self._new(a)]
            self._since = self._buffer.end
            self._judge([w for w in self._waiting if w[1].line.order + FARTHEST < self._buffer.end])
            self._waiting = [w for w in self._waiting if w[1].line.order + FARTHEST >= self._buffer.end]
            self._buffer.drop()

    def finish(self) -> None:
        """Judge the rest."""
        self._judge(self._waiting)
        self._waiting = []

    def lines(self, signature: Signature) -> list[Raw] | None:
        """Lines on which it stands; None where it has no conditions that are judged here."""
        asked = self._asked.get(id(signature))
        if asked is None:
            return None
        stands = [*asked.firm[0], *asked.firm[1], *asked.open[0], *asked.open[1]]
        lines = {r.order: r for s in stands if self._stays(asked, s) for r in s.lines}
        return [lines[n] for n in sorted(lines)]

    def _ask(self) -> None:
        """Signatures that have to be judged from now on."""
        for cause, s in ((k.cause, s) for k in self._lib.causes for s in k.cause.signatures):
            if id(s) not in self._asked and (not s.pattern or self._probes[s.pattern].count):
                asked = ConditionalSignature(cause, s, self._unknown)
                here = asked.conditional and s.reach is Reach.NEARBY and (s.pattern or asked.facts)
                self._asked[id(s)] = asked if here else None

    def _new(self, asked: ConditionalSignature) -> Iterator[tuple[ConditionalSignature, Hit, bool]]:
        """Matches of the pattern, and of what it needs where not all its matches are kept."""
        pattern = asked.signature.pattern
        of_facts = [p for n in asked.facts for p in self._lib.facts[n].patterns]
        known = asked.full  # what stands is known, and where it began: of the rest the last ones are enough
        for p in [pattern] if pattern else of_facts:
            yield from ((asked, h, False) for h in self._fresh(p)[-LAST if known else 0 :])
        if pattern and not known and len(self._probes[pattern].first) == KEEP:
            for p in (*(p for group in asked.needs for p in group), *asked.signature.near):
                yield from ((asked, h, True) for h in self._fresh(p))

    def _fresh(self, pattern: str) -> list[Hit]:
        return [h for h in self._probes[pattern].hits if h.line.order >= self._since]

    def _judge(self, ready: list[tuple[ConditionalSignature, Hit, bool]]) -> None:
        done: set[tuple[int, int]] = set()
        for asked, anchor, needed in sorted(ready, key=lambda w: w[1].line.order):
            for hit in self._matches(asked, anchor) if needed else [anchor]:
                if (id(asked), hit.line.order) not in done:
                    done.add((id(asked), hit.line.order))
                    self._weigh(asked, hit)

    def _matches(self, asked: ConditionalSignature, anchor: Hit) -> list[Hit]:
        """Matches of the signature's own pattern near a line that it needs, the nearest."""
        found = self._buffer.hits(asked.signature.pattern, *self._buffer.around(anchor.line))
        evidence = (h for h in found if not h.line.frame)
        nearest = sorted(evidence, key=lambda h: abs(h.line.order - anchor.line.order))[:NEAREST]
        return sorted(nearest, key=lambda h: h.line.order)

    def _weigh(self, asked: ConditionalSignature, hit: Hit) -> None:
        low, high = self._buffer.around(hit.line)
        at, s = hit.line.order, asked.signature
        if any(self._there(p, hit, low, high) for p in asked.unless):
            return
        if any(self._there(p, hit, at + 1, high) for p in s.recovered):
            return
        if not all(self._beside(p, hit, s.within) for p in s.near) or any(
            self._beside(p, hit, s.within) for p in s.not_near
        ):
            return
        facts, lines = self._facts(asked, hit, low, high)
        lacks = [group for group in asked.needs if not any(self._there(p, hit, low, high) for p in group)]
        stand = Stand(hit, [hit.line] if s.pattern else lines, lacks, facts)
        if not lacks and self._holds(asked, hit, facts):
            asked.keep(stand, True)
        elif len(self._files) > 1:
            asked.keep(stand, False)

    def _there(self, pattern: str, hit: Hit, low: int, high: int) -> bool:
        """Whether it stands there and is about the same thing at about the same time."""
        return any(self._with(h, hit) and same(h, hit) for h in self._buffer.hits(pattern, low, high))

    def _with(self, other: Hit, hit: Hit) -> bool:
        if other.line.file != hit.line.file:
            return False
        one, two = self._buffer.when(other.line), self._buffer.when(hit.line)
        return not (one and two and (one.apart(two) or 0) > APART)

    def _beside(self, pattern: str, hit: Hit, within: int) -> bool:
        around = self._buffer.hits(pattern, hit.line.order - within, hit.line.order + within)
        return any(h.line.file == hit.line.file and not h.line.frame for h in around)

    def _facts(self, asked: ConditionalSignature, hit: Hit, low: int, high: int) -> tuple[Facts, list[Raw]]:
        known = {n: self._lib.facts[n] for n in asked.facts}
        probes = {p: [h for h in self._buffer.hits(p, low, high) if self._with(h, hit)] for p in _patterns(known)}
        facts, lines = facts_of.from_hits(known, probes)
        return facts, [r for n in asked.facts for r in lines.get(n, [])[:2]]

    def _holds(self, asked: ConditionalSignature, hit: Hit, facts: Facts) -> bool:
        groups: dict[str, tuple[Value, ...]] = {k: (number(v),) for k, v in hit.groups.items()}
        own = groups if asked.signature.pattern else {}
        return all(holds(c, {**facts, **self._given, **own}) for c in asked.signature.where)

    def _stays(self, asked: ConditionalSignature, stand: Stand) -> bool:
        """Whether it stands by what the other files of the bundle say as well."""
        if len(self._files) < 2:
            return True
        if any(self._elsewhere(p, stand.hit) for p in asked.unless):
            return False
        if not all(any(self._elsewhere(p, stand.hit) for p in group) for group in stand.lacks):
            return False
        known = {n: self._lib.facts[n] for n in asked.facts}
        more, _ = facts_of.from_hits(known, {p: self._others(p, stand.hit) for p in _patterns(known)})
        return self._holds(asked, stand.hit, {n: (*stand.facts.get(n, ()), *more.get(n, ())) for n in known})

    def _elsewhere(self, pattern: str, hit: Hit) -> bool:
        return any(same(h, hit) for h in self._others(pattern, hit))

    def _others(self, pattern: str, hit: Hit) -> list[Hit]:
        """Where it stands in small files, or in long ones at about the same time."""
        when = moment(hit.line.data)
        found = [h for h in self._probes[pattern].hits if h.line.file != hit.line.file]
        return [h for h in found if self._files[h.line.file] <= SMALL or _together(when, moment(h.line.data))]


def _together(one: Moment | None, two: Moment | None) -> bool:
    apart = one.apart(two) if one and two else None
    return apart is not None and apart <= TOGETHER


def _patterns(known: Mapping[str, FactKnowledge]) -> Iterator[str]:
    return (p for f in known.values() for p in f.patterns)


def same(other: Hit, hit: Hit) -> bool:
    """Whether both are about the same thing: what both name, they name alike."""
    return all(hit.groups.get(k, v) == v for k, v in other.groups.items())
