"""One way from the causes that were found to a Diagnosis: their order, what they forbid, what a person does now. Pure.

Readings that failed are listed by unread.py, for every runbook alike; a judgment names only what is open besides them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from runbooks.core.distinct import FEW, names_of
from runbooks.core.forbidden import NAMED
from runbooks.core.remedies import spoken_against
from runbooks.core.rules import book
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State

SURE, LIKELY, POSSIBLE = Certainty.CONFIRMED, Certainty.LIKELY, Certainty.POSSIBLE
_CODE = re.compile(r"`[^`]+`|/proc/(?:PID|\d+)\b")
_PLACE = re.compile(r"\b(?:PID|WORKER|POD|JOB|RUN|CONTAINER|NODE)\b")


class Judgment:
    """The causes found so far, and the short way to write one."""

    def __init__(self, slug: str, about: str = "", causes: Iterable[Cause] = (), late: Collection[str] = ()) -> None:
        """`slug`: the runbook's; `about`: the subject of a cause that names none; `late`: as in `ordered`."""
        self.slug, self.subject, self.causes, self.late = slug, about, list(causes), late

    def say(
        self, slug: str, certainty: Certainty, *evidence: str, about: str = "", decides: tuple[str, ...] = (), benign: bool = False
    ) -> None:
        """Adds a cause; empty sentences are left out."""
        words = tuple(s for s in evidence if s) or ("nothing was said",)
        self.causes.append(
            Cause(slug=slug, certainty=certainty, subject=about or self.subject, evidence=words, decides=decides, benign=benign)
        )

    def has(self, *slugs: str) -> bool:
        """Whether one of them was found, confirmed or likely."""
        return any(c.slug in slugs and c.certainty in (SURE, LIKELY) for c in self.causes)

    def sort(self) -> tuple[Cause, ...]:
        """Puts the causes in order."""
        self.causes = list(ordered(self.slug, self.causes, self.late))
        return tuple(self.causes)

    def diagnosis(
        self, *, must_not: Sequence[str] = (), before: Sequence[str] = (), after: Sequence[str] = (),
        remedy: Callable[[Cause], str] | None = None, **rest: Any,
    ) -> Diagnosis:  # fmt: skip
        """The whole of it. `must_not`: what is forbidden whatever was found; `before` and `after`: what a person does besides
        the remedies; `remedy`: a whole line in place of runbook.yaml's; `rest`: the other fields of a Diagnosis, as they are."""
        said = tuple(rest.pop("findings", ()))
        causes = spoken_against(book(self.slug), self.sort(), said, (*before, *after))
        return Diagnosis(
            causes=causes,
            must_not=tuple(dict.fromkeys((*prohibited(self.slug, causes), *must_not))),
            do_now=tuple(dict.fromkeys((*before, *to_do(self.slug, causes, remedy), *after))),
            findings=_permitted(self.slug, causes, said),
            **rest,
        )


class Judged(Protocol):
    """What is put in order: a cause, or what becomes one."""

    @property
    def slug(self) -> str: ...
    @property
    def certainty(self) -> Certainty: ...
    @property
    def benign(self) -> bool: ...


J = TypeVar("J", bound=Judged)


def ordered(slug: str, causes: Iterable[J], late: Collection[str] = ()) -> tuple[J, ...]:
    """Credible faults first, then possible ones, what is benign, what is ruled out; among each in the order of runbook.yaml.

    `late`: slugs of what came after the others this time."""
    place = {name: i for i, name in enumerate(book(slug).causes)}
    sure = list(Certainty)
    return tuple(sorted(causes, key=lambda c: (tier(c), c.slug in late, place[c.slug], sure.index(c.certainty))))


def tier(cause: Judged) -> int:
    """0 for a credible fault, 1 for a possible one, 2 for what explains and is no fault, 3 for what is ruled out."""
    if cause.certainty is Certainty.RULED_OUT:
        return 3
    return 2 if cause.benign else int(cause.certainty is POSSIBLE)


def credible(causes: Iterable[J]) -> tuple[J, ...]:
    """Faults that are confirmed or likely."""
    return tuple(c for c in causes if tier(c) == 0)


def state_of(causes: Iterable[Judged], *, blind: object = False) -> State:
    """Sick by a credible fault; not known by a possible one, or where something that was needed is not (`blind`)."""
    worst = min(map(tier, causes), default=3)
    return State.UNHEALTHY if worst == 0 else State.CANNOT_TELL if worst == 1 or blind else State.HEALTHY


def prohibited(slug: str, causes: Iterable[Cause]) -> tuple[str, ...]:
    """What the causes that stand forbid, each once."""
    return book(slug).prohibitions(c.slug for c in causes if c.certainty is not Certainty.RULED_OUT)


def diagnosis(slug: str, causes: Iterable[Cause], late: Collection[str] = (), **fields: Any) -> Diagnosis:
    """That of a judgment which gathered its causes by itself; fields as in Judgment.diagnosis."""
    return Judgment(slug, causes=causes, late=late).diagnosis(**fields)


def to_do(slug: str, causes: Iterable[Cause], own: Callable[[Cause], str] | None = None) -> tuple[str, ...]:
    """For each fault what decides it, where it is not confirmed, and its remedy, where it is credible; each once, with its subjects.

    What many subjects share but for the ids in its commands is one line, with PID, POD, … in their place."""
    alike: dict[str, dict[tuple[str, str], None]] = {}  # line without ids -> (subject, line)
    for c in causes:
        if tier(c) > 1:
            continue
        decides = c.decides or (book(slug).causes[c.slug].decided_by[:1] if tier(c) else ())
        lines = [f"find out first: {d}" for d in decides if c.certainty is not SURE]
        lines += [book(slug).causes[c.slug].remedy_without(c.withheld)] if tier(c) == 0 and not own else []
        for line in filter(None, lines):
            alike.setdefault(general(line, c), {})[c.subject, filled(line, c)] = None
        if tier(c) == 0 and own:
            alike.setdefault(own(c), {})["", own(c)] = None
    return tuple(said for line, told in alike.items() for said in _lines(line, list(told)))


def _lines(line: str, told: Sequence[tuple[str, str]]) -> Iterator[str]:
    """`told`: subject and the line as it is for it; a subject "": the line names it."""
    if len({subject for subject, _ in told}) > FEW:
        told = [(subject, line) for subject, _ in told]
    for text in dict.fromkeys(text for _, text in told):
        subjects = list(dict.fromkeys(s for s, own in told if own == text and s))
        yield f"{names_of(subjects)}: {text}" if subjects else text


def findings(slug: str, causes: Iterable[Cause], category: str) -> tuple[Finding, ...]:
    """One for each fault, in the fields of the old reports: how to go on is its remedy, or what decides it where it is only possible."""
    rank = {SURE: "HIGH", LIKELY: "MEDIUM"}
    return tuple(
        Finding(priority=rank.get(c.certainty, "LOW"), category=category, issue=f"{book(slug).causes[c.slug].title}: {_what(c)}",
                action=c.decides[0] if c.decides and tier(c) else remedy(slug, c))
        for c in causes if tier(c) < 2
    )  # fmt: skip


def _permitted(slug: str, causes: Iterable[Cause], said: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, each remedy in them as far as the rest of the report leaves it; where nothing is left, what decides the cause."""
    cut = {}
    for c in (c for c in causes if c.withheld):
        known = book(slug).causes[c.slug]
        cut[filled(known.remedy, c)] = filled(known.remedy_without(c.withheld), c) or known.decided_by[0]
    return tuple(f.model_copy(update={"action": cut.get(f.action, f.action)}) for f in said)


def _what(c: Cause) -> str:
    """The subject with the number that was read of it."""
    return c.evidence[0] if c.subject in c.evidence[0] else f"{c.subject}: {c.evidence[0]}"


def remedy(slug: str, cause: Cause) -> str:
    """What runbook.yaml says that helps, with what the cause is about, as far as the rest of the report leaves it."""
    return filled(book(slug).causes[cause.slug].remedy_without(cause.withheld), cause)


def filled(text: str, cause: Cause) -> str:
    """A text of runbook.yaml; PID, POD, … in its commands are what the cause's subject names."""
    ids = _ids(cause)
    return _CODE.sub(lambda code: _PLACE.sub(lambda place: ids.get(place[0], place[0]), code[0]), text)


def general(text: str, cause: Cause) -> str:
    """The other way round: what can be said once of many. The ids of the cause's subject in its commands become PID, POD, …"""
    for place, own in _ids(cause).items():
        text = _CODE.sub(partial(_in_place, place, own), text)
    return text


def _in_place(place: str, own: str, code: re.Match[str]) -> str:
    return re.sub(rf"(?<![\w.-]){re.escape(own)}(?![\w-])", place, code[0])


def _ids(cause: Cause) -> dict[str, str]:
    """By place, where the subject names one of the kind alone."""
    ids: dict[str, set[str]] = {}
    for found in NAMED.finditer(cause.subject):
        ids.setdefault(found[0].partition(" ")[0].upper(), set()).add(found[1])
    return {place: named.pop() for place, named in ids.items() if len(named) == 1}
