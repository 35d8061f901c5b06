"""Confirmed means excluded: one rule, over every judgment, says which cause may be called confirmed and which plan stands.

A judge claims; this rule grants. runbook.yaml names for each cause the readings that decide it (`rests_on`), and what else
it could be with the reading that excludes that (`excluded_by`). A cause without these, with one of them not read, or beside
an alternative that the same report lets stand, is likely at most, and no plan for it is offered. Pure.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from runbooks.core.base import Frozen
from runbooks.core.forbidden import NAMED
from runbooks.core.knowledge import CauseKnowledge, Runbook
from runbooks.core.plan import Plan
from runbooks.core.reading import UnknownReason
from runbooks.core.reading_words import words_of
from runbooks.core.unread import Lost, ReadingAt, readings_of, unread
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State

_PLACE = re.compile(r" \(([^()]+)\)$")
OWN = "[own]"  # "tiers[own].space": of the items that the cause's subject names; of all where it names none


class Seen(NamedTuple):
    """Every reading of an evidence, and its type, by which they are told in words."""

    kind: type[BaseModel]
    readings: tuple[ReadingAt, ...]


class Gap(Frozen):
    """Why a cause is not confirmed."""

    said: str  # what a person reads of it
    decides: str  # what would close it


def granted(book: Runbook, evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment with each certainty and each plan as far as it is granted."""
    if found.state is State.NOT_APPLICABLE or not found.causes:
        return found
    seen = Seen(type(evidence), tuple(readings_of(evidence)))
    causes = tuple(_granted(c, tuple(gaps(book, c, found.causes, seen))) for c in found.causes)
    against = [(plan, tuple(dict.fromkeys(_against(book, plan, found.causes, seen)))) for plan in found.plans]
    said = tuple(f"“{plan.name}” is not offered: {'; '.join(why)}" for plan, why in against if why)
    kept = tuple(plan for plan, why in against if not why)
    return found.model_copy(update={"causes": causes, "plans": kept, "do_now": (*found.do_now, *said)})


def _granted(cause: Cause, gap: Sequence[Gap]) -> Cause:
    if not gap or cause.certainty is not Certainty.CONFIRMED:
        return cause
    decides = dict.fromkeys((*cause.decides, *(g.decides for g in gap)))
    return cause.model_copy(update={"certainty": Certainty.LIKELY, "decides": tuple(decides)})


def gaps(book: Runbook, cause: Cause, causes: Sequence[Cause], seen: Seen) -> Iterator[Gap]:
    """What is missing before that cause is confirmed."""
    known = book.causes.get(cause.slug)
    if known is None or not known.rests_on or not known.excluded_by:
        yield Gap(said="nothing says what decides it", decides="what decides it, and what else it could be")
        return
    for lost in _unread(dict.fromkeys((*known.rests_on, *known.excluded_by.values())), cause.subject, seen):
        yield Gap(said=f"not read: {lost}", decides=f"{lost}: it was not read")
    for rival in rivals(book, known, cause, causes):
        yield Gap(said=f"not excluded: {rival.slug}", decides=f"whether it is {rival.slug}: {_how(book, rival)}")


def rivals(book: Runbook, known: CauseKnowledge, cause: Cause, causes: Sequence[Cause]) -> Iterator[Cause]:
    """Alternatives that the same report lets stand, about the same thing."""
    for other in causes:
        if other.slug in known.excluded_by and other.certainty is not Certainty.RULED_OUT and _of_one(book, cause, other):
            yield other


def _of_one(book: Runbook, a: Cause, b: Cause) -> bool:
    """Whether two causes are about the same thing: of one subject, or of one id, or the runbook judges one thing only.

    An id in two places, "run job (etcd)" and "run job (etcd-v2)", is not one id.
    """
    if book.judges_one or a.subject == b.subject:
        return True
    places = [m[1] for x in (a, b) if (m := _PLACE.search(x.subject))]
    elsewhere = len(places) == 2 and places[0] != places[1]
    return not elsewhere and bool({*NAMED.findall(a.subject)} & {*NAMED.findall(b.subject)})


def _how(book: Runbook, cause: Cause) -> str:
    known = book.causes.get(cause.slug)
    return "; ".join(cause.decides or (known.decided_by if known else ()))


def _against(book: Runbook, plan: Plan, causes: Sequence[Cause], seen: Seen) -> Iterator[str]:
    """What stands against a plan: what its causes rest on, what excludes the alternatives, and its own needs."""
    for slug in plan.for_causes:
        known = book.causes.get(slug)
        mine = [c for c in causes if c.slug == slug and c.certainty is not Certainty.RULED_OUT]
        for subject in dict.fromkeys(c.subject for c in mine) or ("",):
            needs = (*known.rests_on, *known.excluded_by.values(), *known.plan_needs) if known else ()
            lost = _unread(dict.fromkeys(needs), subject, seen)
            yield from [f"not read: {', '.join(lost)}"] if lost else []
        sure = (Certainty.CONFIRMED, Certainty.LIKELY)
        found = [r for c in mine if known for r in rivals(book, known, c, causes) if r.certainty in sure]
        yield from (f"not excluded: {r.slug}" for r in found)


def _unread(paths: Sequence[str] | dict[str, None], subject: str, seen: Seen) -> tuple[str, ...]:
    """Of these readings, in words, those that gave no answer. "a or b": one of them is enough."""
    lost = (group for group in paths if not any(_answered(p, subject, seen.readings) for p in group.split(" or ")))
    return tuple(dict.fromkeys(words_of(seen.kind, group) for group in lost))


def _answered(path: str, subject: str, seen: Sequence[ReadingAt]) -> bool:
    """Whether that reading was made and gave an answer, each time where it stands in a list. What is proven absent answers
    for all that would stand in it."""
    plain = path.replace(OWN, "[]")
    mine = [x for x in seen if x.path == plain]
    own = [x for x in mine if OWN in path or x.path.count("[]") < len(x.items)]  # the latter: of an evidence inside the evidence
    if named := [x for x in own if any(_names(subject, item) for item in x.items)]:
        mine = named
    if not mine:
        return any(x.absent and plain.startswith((f"{x.path}.", f"{x.path}[")) for x in seen)
    return not any(isinstance(x, Lost) for x in mine)


def unseen(book: Runbook, plan: Plan, before: Diagnosis, evidence: BaseModel) -> tuple[str, ...]:
    """Readings that a cause of the plan or the plan needs, and that failed now: that the cause is not found then proves nothing.

    What nobody asked for, as the processes in a pod that is gone, is no failure.
    """
    lost = unread(evidence)
    failed = [x for x in lost if x.reading.reason not in (UnknownReason.NOT_ASKED, UnknownReason.NOT_RECORDED)]
    every = tuple(readings_of(evidence))
    silent = (*lost, *(x for x in every if x.absent))  # what is not there shows nothing in place of what failed
    items = {(x.path.partition("[")[0], item) for x in every for item in x.items}
    mine = [c for c in before.causes if c.slug in {*plan.for_causes, *plan.also_gone} and c.certainty is not Certainty.RULED_OUT]
    found = []
    for cause in mine:
        for group in (*known.rests_on, *known.plan_needs) if (known := book.causes.get(cause.slug)) else ():
            paths = [(p.replace(OWN, "[]"), _own(p, cause.subject, items)) for p in group.split(" or ")]
            if all(any(_holds(x, *p) for x in silent) for p in paths) and any(_holds(x, *p) for p in paths for x in failed):
                found.append(group.replace(OWN, "[]"))
    return tuple(dict.fromkeys(found))


def _own(path: str, subject: str, items: Collection[tuple[str, str]]) -> frozenset[str]:
    """Of the list that the path goes through, the items that the subject names; none where it names none, or all count."""
    here = path.partition("[")[0]
    return frozenset(item for at, item in items if OWN in path and at == here and _names(subject, item))


def _holds(lost: ReadingAt, path: str, own: frozenset[str]) -> bool:
    """Whether the lost reading is that one, or one that it stands in."""
    return (path == lost.path or path.startswith((f"{lost.path}.", f"{lost.path}["))) and (not own or bool(own & {*lost.items}))


def _names(subject: str, item: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(item)}(?![\w-])", subject) is not None
