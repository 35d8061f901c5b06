"""Prohibitions as data: a plan with a step that a cause of the same report forbids is withheld, and the report says so. Pure."""

import re
from collections.abc import Iterator
from typing import Any

from runbooks.core.knowledge import Runbook
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Cause, Certainty, Diagnosis

NAMED = re.compile(r"\b(?:pid|worker|pod|job|run|container|node) ([^\s,:;()]+)")  # the id in "pid 460 on GPU 0"


def allowed(book: Runbook, found: Diagnosis) -> Diagnosis:
    """The judgment without the plans that its own causes or findings forbid."""
    if not found.plans:
        return found
    against = [(plan, objection(book, found, plan)) for plan in found.plans]
    said = tuple(f"“{plan.name}” is not offered: {words}" for plan, words in against if words)
    if not said:
        return found
    kept = tuple(plan for plan, words in against if not words)
    return found.model_copy(update={"plans": kept, "do_now": (*found.do_now, *said)})


def objection(book: Runbook, found: Diagnosis, plan: Plan) -> str:
    """What in the report forbids that plan, "" if nothing does. A cause that is ruled out forbids nothing."""
    for step in plan.steps:
        for slug in _told(book, found):
            if step.kind in book.causes[slug].forbids:
                return f"“{book.causes[slug].title}” forbids {step.kind}"
        for cause in found.causes:
            known = book.causes.get(cause.slug)
            told = known and _stands(cause) and step.kind in known.forbids_on_it and is_about(cause, step)
            if known and told and not _follows(book, cause, found, plan):
                return f"“{known.title}” forbids {step.kind} on {cause.subject}"
    return ""


def _follows(book: Runbook, cause: Cause, found: Diagnosis, plan: Plan) -> bool:
    """Whether the cause only follows from another one that is confirmed and that this plan repairs: a dead mount ends the application."""
    first = book.causes[cause.slug].yields_to
    sure = {c.slug for c in found.causes if c.certainty is Certainty.CONFIRMED and c.slug != cause.slug}
    return any("*" in first or slug in first for slug in sure & set(plan.for_causes))


def _told(book: Runbook, found: Diagnosis) -> Iterator[str]:
    """Causes of this runbook that the report names, as its own or as what a text says."""
    yield from (c.slug for c in found.causes if _stands(c) and c.slug in book.causes)
    for finding in found.findings:
        family, _, slug = finding.category.partition("/")
        if family == book.slug and slug in book.causes:
            yield slug


def _stands(cause: Cause) -> bool:
    return cause.certainty is not Certainty.RULED_OUT


def is_about(cause: Cause, step: Step) -> bool:
    """Whether the step is about the very thing that the cause is about: an id of its subject stands in the step's arguments."""
    if any(step.args.get(name, value) != value for name, value in cause.told_apart):
        return False
    ids = set(NAMED.findall(cause.subject)) or {cause.subject}
    return bool(ids & {step.owner, *_words(step.args)})


def _words(value: Any) -> Iterator[str]:
    """Every id in a step's arguments: numbers and whole texts, not keys and not parts of a command."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("argv", "command", "tasks"):
                yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _words(item)
    elif isinstance(value, str | int) and not isinstance(value, bool) and str(value):
        yield str(value)
