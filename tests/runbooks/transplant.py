"""A reading of one situation put into another, and what the judge then says of the cause that it was to exclude.

For a cause A that situation SA confirms, and an alternative B that situation SB finds: what runbook.yaml names as the reading
that excludes B is taken from SB and put into SA. If the judge looks at it, A does not stand as before. Of an alternative that
is no cause, alternatives.yaml names the situations in which it is so.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from runbooks.core.confirmed import OWN, _names
from runbooks.core.forbidden import NAMED
from runbooks.core.knowledge import CauseKnowledge, load_runbook, runbook_slugs
from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.reading_words import own_name
from runbooks.core.unread import fields_with_readings
from runbooks.core.verdict import Cause, Certainty, Diagnosis
from tests.runbooks.every import Situation, situations
from tests.support.evidence_places import Place, replaced

SURE, LIKELY, RULED_OUT = Certainty.CONFIRMED, Certainty.LIKELY, Certainty.RULED_OUT
MOST = 100  # combinations of situations that are tried for a pair, those that differ least first


class Shown(StrEnum):
    """What the transplant showed, the best first."""

    RIVAL = "the alternative stands instead"
    TOGETHER = "the alternative stands instead, with what else it rests on"
    FALLS = "the cause does not stand any more"
    WORDS = "the cause does not stand any more where an alternative is so that is described in words"
    OTHERWISE = "the same, and that reading is the cause's own ground"
    GROUND = "the cause lost its own ground with that reading, and nothing stands instead"
    BESIDE = "the alternative stands beside the cause, of another thing"
    NOT = "the cause stands as before"
    NO_CAUSE = "no situation finds the cause"
    NO_RIVAL = "no situation finds the alternative"
    NO_READING = "no two situations differ in that reading"


PROVEN = (Shown.RIVAL, Shown.TOGETHER, Shown.FALLS, Shown.WORDS, Shown.OTHERWISE)
BEGIN, END = "<!-- excluded: written by `python -m tests.runbooks.transplant` -->", "<!-- end of excluded -->"
RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"
IN_WORDS: dict[str, dict[str, list[str]]] = yaml.safe_load((Path(__file__).parent / "alternatives.yaml").read_text(encoding="utf-8"))
"""Runbook -> alternative in words -> the situations in which it is so."""


class Pair(NamedTuple):
    """A cause, what else it could be, and the reading that excludes that."""

    runbook: str
    cause: str
    rival: str
    reading: str  # as runbook.yaml names it: "a or b", "tiers[own].space"

    def __str__(self) -> str:
        return f"{self.cause} / {self.rival}: {self.reading}"


class Look(NamedTuple):
    """A reading where it stands in an evidence."""

    path: str
    items: tuple[str, ...]
    place: Place
    reading: Any


class Found(NamedTuple):
    """A situation and a cause that it finds."""

    case: Situation
    cause: Cause


NOBODY = Cause(slug="in-words", certainty=Certainty.POSSIBLE, subject="", evidence=("an alternative that is no cause",))


class Trial(NamedTuple):
    """The best that was shown of a pair, and by which situations."""

    shown: Shown
    of: str = ""
    by: str = ""


def pairs(runbook: str) -> Iterator[Pair]:
    """Every cause with every alternative."""
    for slug, known in load_runbook(runbook).causes.items():
        for rival, reading in known.excluded_by.items():
            yield Pair(runbook, slug, rival, reading)


def in_words(pair: Pair) -> bool:
    """Whether the alternative is no cause of the runbook."""
    return pair.rival not in load_runbook(pair.runbook).causes


@cache
def tried(pair: Pair) -> Trial:
    """What is shown of that pair."""
    return _tried_in_words(pair) if in_words(pair) else _tried(pair)


def _tried_in_words(pair: Pair) -> Trial:
    """The reading as it is where the alternative is so, which gives an answer there, takes the cause away."""
    named, of = IN_WORDS[pair.runbook][pair.rival], _confirming(pair.runbook, pair.cause)
    if not of:
        return Trial(Shown.NO_CAUSE)
    by = [Found(s, NOBODY) for s in situations() if s.runbook == pair.runbook and s.title in named]
    best = Trial(Shown.NO_READING if by else Shown.NO_RIVAL)
    for a, b in islice(_nearest(of, by), MOST):
        evidence = put(a, b, [pair.reading])
        if evidence is None:
            continue
        if stands(a, a.case.judge(evidence)):
            best = Trial(Shown.NOT, a.case.title, b.case.title)
        elif _lost(evidence) > _lost(a.case.evidence):
            best = Trial(Shown.GROUND, a.case.title, b.case.title)
        else:
            ground = _plain(pair.reading) & _ground(load_runbook(pair.runbook).causes[pair.cause])
            return Trial(Shown.OTHERWISE if ground else Shown.WORDS, a.case.title, b.case.title)
    return best


def _tried(pair: Pair) -> Trial:
    of, by = _confirming(pair.runbook, pair.cause), _finding(pair.runbook, pair.rival)
    if not of or not by:
        return Trial(Shown.NO_RIVAL if of else Shown.NO_CAUSE)
    best = Trial(Shown.NO_READING)
    for together in (False, True):
        for a, b in (two for part in by for two in islice(_nearest(of, part), MOST)):
            found = shown(pair, a, b, together)
            if found is not None and _rank(found) < _rank(best.shown):
                best = Trial(found, a.case.title, b.case.title)
            if best.shown in PROVEN[:2]:
                return best
    return best


def _rank(shown: Shown) -> int:
    return list(Shown).index(shown)


def shown(pair: Pair, a: Found, b: Found, together: bool) -> Shown | None:
    """None where that reading is the same in both."""
    known = load_runbook(pair.runbook).causes
    evidence = put(a, b, [pair.reading])
    if evidence is None:
        return None
    if together:
        more = [g for g in known[pair.rival].rests_on if not _plain(g) & _ground(known[pair.cause])]
        evidence = put(Found(a.case._replace(evidence=evidence), a.cause), b, more) or evidence
    lost = _lost(evidence) > _lost(a.case.evidence)
    after = a.case.judge(evidence)
    there, new = pair.rival in _standing(after), pair.rival not in _standing(a.case.judge())
    if stands(a, after) and not (there and new and a.cause.certainty is not SURE):
        return Shown.BESIDE if there and new else Shown.NOT
    if there:
        return Shown.TOGETHER if together else Shown.RIVAL
    return Shown.GROUND if together or lost or _plain(pair.reading) & _ground(known[pair.cause]) else Shown.FALLS


def _standing(found: Diagnosis) -> set[str]:
    return {c.slug for c in found.causes if c.certainty is not RULED_OUT}


def _lost(evidence: BaseModel) -> int:
    """How many readings gave no answer: where one is missing, a cause falls whatever the judge looks at."""
    return sum(isinstance(x.reading, Unknown) for x in looks(evidence, type(evidence)))


def stands(a: Found, after: Diagnosis) -> bool:
    """Whether the cause is as sure as before, of the same thing or of one that was not there before."""
    before = {_thing(c) for c in a.case.judge().causes} - {_thing(a.cause)}
    same = [c for c in after.causes if c.slug == a.cause.slug and _thing(c) not in before]
    rank = list(Certainty).index
    return any(rank(c.certainty) <= rank(a.cause.certainty) for c in same) and _plans(a, a.case.judge()) <= _plans(a, after)


def _plans(a: Found, found: Diagnosis) -> bool:
    return any(a.cause.slug in p.for_causes for p in found.plans)


def _thing(cause: Cause) -> tuple[str, str]:
    return cause.slug, next(iter(NAMED.findall(cause.subject)), cause.subject)


def _plain(group: str) -> set[str]:
    return {p.replace(OWN, "[]") for p in group.split(" or ")}


def _ground(known: CauseKnowledge) -> set[str]:
    """The readings that a cause rests on."""
    return {p for group in known.rests_on for p in _plain(group)}


@cache
def _by_cause(runbook: str) -> dict[str, list[Found]]:
    found = defaultdict(list)
    for case in situations():
        for cause in case.judge().causes if case.runbook == runbook else ():
            found[cause.slug].append(Found(case, cause))
    return found


def _confirming(runbook: str, slug: str) -> list[Found]:
    """Where a cause is confirmed; of one that no situation confirms, where it is likely."""
    found = _by_cause(runbook)[slug]
    return [x for x in found if x.cause.certainty is SURE] or [x for x in found if x.cause.certainty is LIKELY]


def _finding(runbook: str, slug: str) -> list[list[Found]]:
    """Where a cause is confirmed or likely, and where it is possible."""
    found = [x for x in _by_cause(runbook)[slug] if x.cause.certainty is not RULED_OUT]
    sure = [x for x in found if x.cause.certainty in (SURE, LIKELY)]
    return [part for part in (sure, [x for x in found if x not in sure]) if part]


def _nearest(of: Sequence[Found], by: Sequence[Found]) -> Iterator[tuple[Found, Found]]:
    """Two situations each, those that differ in the fewest fields first."""
    two = [(_apart(a.case, b.case), i, j) for i, a in enumerate(of) for j, b in enumerate(by) if a.case is not b.case]
    return ((of[i], by[j]) for _, i, j in sorted(two))


def _apart(a: Situation, b: Situation) -> int:
    one, other = _fingerprint(a), _fingerprint(b)
    return sum(x != y for x, y in zip(one, other, strict=True))


@cache
def _prints() -> dict[int, tuple[int, ...]]:
    return {id(s): tuple(hash(repr(getattr(s.evidence, f))) for f in type(s.evidence).model_fields) for s in situations()}


def _fingerprint(case: Situation) -> tuple[int, ...]:
    return _prints()[id(case)]


def put(a: Found, b: Found, groups: Sequence[str]) -> BaseModel | None:
    """The evidence of `a` with these readings as they are in `b`, each where the cause's own things are. None: nothing differs."""
    evidence, changed = a.case.evidence, False
    for path in (p for group in groups for p in group.split(" or ")):
        theirs = [x.reading for x in own(b.case.evidence, path, b.cause.subject)]
        for i, mine in enumerate(own(evidence, path, a.cause.subject) if theirs else ()):
            new = theirs[min(i, len(theirs) - 1)]
            if new != mine.reading:
                evidence, changed = replaced(evidence, mine.place, new), True
    return evidence if changed else None


def own(evidence: BaseModel, path: str, subject: str) -> list[Look]:
    """The readings at that path; of those in a list that are the subject's own, only these, where the path says so."""
    mine = [x for x in looks(evidence, type(evidence)) if x.path == path.replace(OWN, "[]")]
    separate = [x for x in mine if OWN in path or x.path.count("[]") < len(x.items)]
    return [x for x in separate if any(_names(subject, item) for item in x.items)] or mine


def looks(value: Any, root: type[BaseModel], path: str = "", items: tuple[str, ...] = (), place: Place = ()) -> Iterator[Look]:
    """Every reading with its place, named as in runbooks.core.unread."""
    if isinstance(value, Known | Absent | Unknown):
        yield Look(path, items, place, value)
        yield from looks(value.value, root, path, items, (*place, "value")) if isinstance(value, Known) else ()
    elif isinstance(value, tuple | Mapping):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            name = str(key) if isinstance(value, Mapping) else own_name(item) or str(key)
            if isinstance(item, BaseModel | tuple | Mapping):
                yield from looks(item, root, f"{path}[]", (*items, name), (*place, key))
    elif isinstance(value, BaseModel):
        base = path if type(value) is not root else ""
        for field in fields_with_readings(type(value)):
            yield from looks(getattr(value, field), root, f"{base}.{field}".lstrip("."), items, (*place, field))


def unshown(runbook: str) -> list[str]:
    """The pairs of which nothing is proven, with what was seen instead."""
    trials = ((pair, tried(pair)) for pair in pairs(runbook))
    return [f"{pair}: {x.shown} ({x.of!r} with that of {x.by!r})" for pair, x in trials if x.shown not in PROVEN]


def counted() -> str:
    """The counts over all runbooks, as the table that RESULTS.md publishes."""
    count = Counter(tried(pair).shown for slug in runbook_slugs() for pair in pairs(slug))
    rows = [("proven", sum(count[x] for x in PROVEN)), *((str(x), count[x]) for x in Shown), ("all", sum(count.values()))]
    return "\n".join(("| what was seen | alternatives |", "|---|---|", *(f"| {what} | {number} |" for what, number in rows)))


def published() -> dict[str, int]:
    """What RESULTS.md says."""
    part = RESULTS.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in part.strip().splitlines()[2:]]
    return {what: int(number) for what, number in rows}


def write() -> None:
    """The counts."""
    head, _, rest = RESULTS.read_text(encoding="utf-8").partition(BEGIN)
    RESULTS.write_text(head + BEGIN + "\n" + counted() + "\n" + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    write()
