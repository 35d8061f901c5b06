"""What was read in words and reports a failure is explained by a cause, or told.

runbook.yaml names where the evidence holds words (`speaks`). What they say is judged by the knowledge base alone. Beside
what no cause explains nothing is healthy; beside a fault it is listed as read and not used. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from runbooks.core.knowledge import Runbook
from runbooks.core.reading import Known
from runbooks.core.reading_words import words_of
from runbooks.core.verdict import Diagnosis, Finding, State

MOST_LINES = 3  # shown
ENOUGH = 60  # characters of a line by which it is found again in what a judgment says
NOT_USED = "Not used"
HISTORY = "History"  # the category of a finding about what was read and is proven to be over


def explained(book: Runbook, evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment; cannot-tell in place of healthy where something that was read reports a failure of no cause."""
    if not book.speaks:
        return found
    if found.state in (State.UNHEALTHY, State.CANNOT_TELL):
        return found.model_copy(update={"findings": (*found.findings, *_left_over(book, evidence, found))})
    if found.state is not State.HEALTHY:
        return found
    open_, more = _failure_lines(book, evidence, found)
    open_ = _not_among(open_, (f.issue for f in found.findings if f.category == HISTORY))
    if not open_:
        return found
    said = tuple(dict.fromkeys(f"unexplained, in {words_of(type(evidence), path)}: {line}" for path, line in open_))
    headline = f"cannot tell: {said[0]}; else: {found.headline}"
    new = {"state": State.CANNOT_TELL, "headline": headline, "unknowns": (*said[:MOST_LINES], *_rest(len(said), more), *found.unknowns)}
    return found.model_copy(update=new)


def not_used(line: str) -> Finding:
    """The form in which a report tells what was read about its subject and plays no part in its verdict."""
    return Finding(priority="LOW", category=NOT_USED, issue=f"read but not used: {line}", action="compare it with the causes above")


def _left_over(book: Runbook, evidence: BaseModel, found: Diagnosis) -> tuple[Finding, ...]:
    """Lines that report a failure and stand nowhere in the judgment."""
    said = [line for c in found.causes for line in c.evidence] + [f.issue for f in found.findings] + list(found.unknowns)
    open_, more = _failure_lines(book, evidence, found)
    left = _not_among(open_, (*said, found.headline))
    new = tuple(dict.fromkeys(f"{words_of(type(evidence), path)}: {line}" for path, line in left))
    return tuple(not_used(line) for line in (*new[:MOST_LINES], *_rest(len(new), more)))


def _not_among(lines: Sequence[tuple[str, str]], told: Iterable[str]) -> list[tuple[str, str]]:
    """The (place, line) pairs whose line stands in none of these texts."""
    text = " ".join(told)
    return [(path, line) for path, line in lines if line.strip()[:ENOUGH] not in text]


def _rest(count: int, more: bool) -> tuple[str, ...]:
    """How many of so many lines are not shown; `more`: there may be others."""
    rest = count - MOST_LINES
    return (f"and {'at least ' if more else ''}{rest} more {'line' if rest == 1 else 'lines'} of that kind",) if rest > 0 else ()


def _failure_lines(book: Runbook, evidence: BaseModel, found: Diagnosis) -> tuple[list[tuple[str, str]], bool]:
    """(place, line) of every line that reports a failure which no cause of the judgment names; whether there may be more.

    Also where the same words name a cause: their other lines that report a failure speak for themselves.
    """
    from runbooks.triage.text import besides, failures  # imports this package in its turn

    known, lines, more = frozenset(c.slug for c in found.causes), [], False
    for path in book.speaks:
        if words := _words(evidence, path.split(".")):
            read, beyond = failures("\n".join(words))
            others, further = besides("\n".join(words))
            lines += [(path, line) for slug, line in read if slug not in known] + [(path, line) for line in others]
            more = more or beyond or further
    return lines, more


def _words(value: Any, path: Sequence[str]) -> list[str]:
    """The text at a path of the evidence, as lines; of what is not there or was not read, none."""
    if isinstance(value, Known):
        value = value.value
    if isinstance(value, str):
        return value.splitlines() if not path else []
    if isinstance(value, tuple):
        return [line for item in value for line in _words(item, path)]
    return _words(getattr(value, path[0], None), path[1:]) if path and isinstance(value, BaseModel) else []

