"""One way from the causes that were found to a Diagnosis: their order, what they forbid, what a person does now. Pure.

Readings that failed are listed by unread.py, for every runbook alike; a judgment names only what is open besides them.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from runbooks.core.forbidden import NAMED
from runbooks.core.rules import book
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State

SURE, LIKELY, POSSIBLE = Certainty.CONFIRMED, Certainty.LIKELY, Certainty.POSSIBLE
FEW = 3  # subjects in a line
_CODE = re.compile(r"`[^`]+`")
_PLACE = re.compile(r"\b(?:PID|WORKER|POD|JOB|RUN|CONTAINER|NODE)\b")


class Judgment:
    """The causes found so far, and the short way to write one."""

    def __init__(self, slug: str, about: str = "", causes: Iterable[Cause] = ()) -> None:
        """`slug`: the runbook's; `about`: the subject of a cause that names none."""
        self.slug, self.subject, self.causes = slug, about, list(causes)

    def say(
        self, slug: str, certainty: Certainty, *evidence: str, about: str = "", decides: tuple[str, ...] = (), innocent: bool = False
    ) -> None:
        """Adds a cause; empty sentences are left out."""
        words = tuple(s for s in evidence if s) or ("nothing was said",)
        self.causes.append(
            Cause(slug=slug, certainty=certainty, subject=about or self.subject, evidence=words, decides=decides, innocent=innocent)
        )

    def has(self, *slugs: str) -> bool:
        """Whether one of them was found, confirmed or likely."""
        return any(c.slug in slugs and c.certainty in (SURE, LIKELY) for c in self.causes)

    def sort(self) -> tuple[Cause, ...]:
        """Puts the causes in order."""
        self.causes = list(ordered(self.slug, self.causes))
        return tuple(self.causes)

    def diagnosis(self, *, must_not: Sequence[str] = (), before: Sequence[str] = (), after: Sequence[str] = (), **rest: Any) -> Diagnosis:
        """The whole of it. `must_not`: what is forbidden whatever was found; `before` and `after`: what a person does besides
        the remedies; `rest`: the other fields of a Diagnosis, as they are."""
        causes = self.sort()
        return Diagnosis(
            causes=causes,
            must_not=tuple(dict.fromkeys((*prohibited(self.slug, causes), *must_not))),
            do_now=tuple(dict.fromkeys((*before, *to_do(self.slug, causes), *after))),
            **rest,
        )


def ordered(slug: str, causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Credible faults first, then possible ones, what is innocent, what is ruled out; among each in the order of runbook.yaml."""
    place = {name: i for i, name in enumerate(book(slug).causes)}
    sure = list(Certainty)
    return tuple(sorted(causes, key=lambda c: (tier(c), place[c.slug], sure.index(c.certainty))))


def tier(cause: Cause) -> int:
    """0 for a credible fault, 1 for a possible one, 2 for what explains and is no fault, 3 for what is ruled out."""
    if cause.certainty is Certainty.RULED_OUT:
        return 3
    return 2 if cause.innocent else int(cause.certainty is POSSIBLE)


def credible(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Faults that are confirmed or likely."""
    return tuple(c for c in causes if tier(c) == 0)


def state_of(causes: Iterable[Cause], *, blind: object = False) -> State:
    """Sick by a credible fault; not known by a possible one, or where something that was needed is not (`blind`)."""
    worst = min(map(tier, causes), default=3)
    return State.SICK if worst == 0 else State.CANNOT_TELL if worst == 1 or blind else State.HEALTHY


def prohibited(slug: str, causes: Iterable[Cause]) -> tuple[str, ...]:
    """What the causes that stand forbid, each once."""
    return book(slug).prohibitions(c.slug for c in causes if c.certainty is not Certainty.RULED_OUT)


def to_do(slug: str, causes: Iterable[Cause]) -> tuple[str, ...]:
    """For each fault what decides it, where it is not confirmed, and its remedy, where it is credible; each once, with its subjects."""
    lines: dict[str, dict[str, None]] = {}
    for c in causes:
        if tier(c) > 1:
            continue
        words = [f"find out first: {d}" for d in c.decides if c.certainty is not SURE]
        words += [remedy(slug, c)] if tier(c) == 0 else []
        for line in words:
            lines.setdefault(line, {})[c.subject] = None
    return tuple(f"{_names(list(subjects))}: {line}" for line, subjects in lines.items())


def findings(slug: str, causes: Iterable[Cause], category: str) -> tuple[Finding, ...]:
    """One for each fault, in the fields of the old reports: how to go on is its remedy, or what decides it where it is only possible."""
    rank = {SURE: "HIGH", LIKELY: "MEDIUM"}
    known = book(slug).causes
    return tuple(
        Finding(priority=rank.get(c.certainty, "LOW"), category=category, issue=f"{known[c.slug].title}: {c.evidence[0]}",
                action=c.decides[0] if c.decides and tier(c) else remedy(slug, c))
        for c in causes if tier(c) < 2
    )  # fmt: skip


def remedy(slug: str, cause: Cause) -> str:
    """The cause's remedy; PID, POD, … in its commands are what the cause's subject names."""
    text = book(slug).causes[cause.slug].remedy
    ids: dict[str, list[str]] = {}
    for found in NAMED.finditer(cause.subject):
        ids.setdefault(found[0].partition(" ")[0].upper(), []).append(found[1])
    return _CODE.sub(lambda code: _PLACE.sub(partial(_one, ids), code[0]), text)


def _one(ids: dict[str, list[str]], place: re.Match[str]) -> str:
    named = ids.get(place[0], [])
    return named[0] if len(named) == 1 else place[0]


def _names(subjects: Sequence[str]) -> str:
    more = f" and {len(subjects) - FEW} more" if len(subjects) > FEW else ""
    return ", ".join(subjects[:FEW]) + more
