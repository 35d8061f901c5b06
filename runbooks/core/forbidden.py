"""Prohibitions as data: a plan with a step that a cause of the same report forbids is withheld, and the report says so. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from runbooks.core.knowledge import CauseKnowledge, Runbook
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding

_NOT_THE_TARGET = ("argv", "command", "tasks", "tier", "from_tier", "to_tier", "keep", "elsewhere")  # arguments of a step
NAMED = re.compile(r"\b(?:pid|worker|pod|job|run|container|node) ([^\s,:;()]+)")  # the id in "pid 460 on GPU 0"


def allowed(book: Runbook, found: Diagnosis) -> Diagnosis:
    """The judgment without the plans that its own causes or findings forbid, and without their commands for a person to type."""
    if not found.plans:
        return found
    against = [(plan, objection(book, found, plan)) for plan in found.plans]
    said = tuple(f"“{plan.name}” is not offered: {words}" for plan, words in against if words)
    if not said:
        return found
    kept = tuple(plan for plan, words in against if not words)
    gone = {c for plan, words in against if words for c in _commands(plan)} - {c for plan in kept for c in _commands(plan)}
    by_hand = tuple(line for line in found.by_hand if line not in gone)
    return found.model_copy(update={"plans": kept, "do_now": (*found.do_now, *said), "by_hand": by_hand})


def _commands(plan: Plan) -> Iterator[str]:
    return (command for step in plan.steps for command in step.commands)


def objection(book: Runbook, found: Diagnosis, plan: Plan) -> str:
    """What in the report forbids that plan, "" if nothing does. A cause that is ruled out forbids nothing."""
    for step in plan.steps:
        for named in named_by(book, found.causes, found.findings):
            if step.kind in named.forbids:
                return f"“{named.title}” forbids {step.kind}"
        for cause in found.causes:
            known = book.causes.get(cause.slug)
            against = known and stands(cause) and step.kind in known.forbids_on_it and is_about(cause, step)
            if known and against and not _follows(book, cause, found, plan):
                return f"“{known.title}” forbids {step.kind} on {cause.subject}"
    return ""


def _follows(book: Runbook, cause: Cause, found: Diagnosis, plan: Plan) -> bool:
    """Whether the cause only follows from another one that is confirmed and that this plan repairs: a dead mount ends the application."""
    first = book.causes[cause.slug].caused_by
    sure = {c.slug for c in found.causes if c.certainty is Certainty.CONFIRMED and c.slug != cause.slug}
    return any("*" in first or slug in first for slug in sure & set(plan.for_causes))


def named_by(book: Runbook, causes: Iterable[Cause], findings: Iterable[Finding]) -> Iterator[CauseKnowledge]:
    """Causes that a report names: as its own, or in its findings as what a text says, of whatever runbook."""
    yield from (book.causes[c.slug] for c in causes if stands(c) and c.slug in book.causes)
    yield from (known for finding in findings if (known := _meant(book, finding)))


def _meant(book: Runbook, finding: Finding) -> CauseKnowledge | None:
    """The cause that a finding's category names as "family/slug"; None where it names none."""
    family, _, slug = finding.category.partition("/")
    if not slug or family == book.slug:
        return book.causes.get(slug)
    from runbooks.triage.load import library  # imports this package in its turn

    return library().named.get((family, slug))


def stands(cause: Cause) -> bool:
    """It is not ruled out."""
    return cause.certainty is not Certainty.RULED_OUT


def is_about(cause: Cause, step: Step) -> bool:
    """Whether the step is about the very thing that the cause is about: an id of its subject stands in the step's arguments."""
    if any(step.args.get(name, value) != value for name, value in cause.told_apart):
        return False
    return bool(ids_of(cause.subject) & {step.owner, *_words(step.args)})


def ids_of(subject: str) -> set[str]:
    """The ids that a cause's subject names; the subject itself where it names none."""
    return set(NAMED.findall(subject)) or {subject, subject.rpartition("/")[2]}  # a file is named in its folder


def _words(value: Any) -> Iterator[str]:
    """Every id in a step's arguments: numbers and whole texts, not keys and not what the step leaves as it is."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _NOT_THE_TARGET:
                yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _words(item)
    elif isinstance(value, str | int) and not isinstance(value, bool) and str(value):
        yield str(value)
