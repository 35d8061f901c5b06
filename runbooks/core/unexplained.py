"""What was read in words and reports a failure is explained by a cause, or told.

runbook.yaml names where the evidence holds words (`speaks`). What they say is judged by the knowledge base alone. Beside
what no cause explains nothing is healthy; beside a fault it is listed as read and not used. Pure.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from runbooks.core.knowledge import Runbook
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis, Finding, State

MOST_LINES = 3  # shown
ENOUGH = 60  # characters of a line by which it is found again in what a judgment says
NOT_USED = "Not used"


def explained(book: Runbook, evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment; cannot-tell in place of healthy where something that was read reports a failure of no cause."""
    if not book.speaks:
        return found
    if found.state in (State.UNHEALTHY, State.CANNOT_TELL):
        return found.model_copy(update={"findings": (*found.findings, *_left_over(book, evidence, found))})
    if found.state is not State.HEALTHY:
        return found
    open_ = [(path, line) for path in book.speaks for line in _failures(_words(evidence, path.split(".")), found)]
    if not open_:
        return found
    said = tuple(dict.fromkeys(f"unexplained, in {path}: {line}" for path, line in open_))
    headline = f"cannot tell: {said[0]}; else: {found.headline}"
    new = {"state": State.CANNOT_TELL, "headline": headline, "unknowns": (*said[:MOST_LINES], *found.unknowns)}
    return found.model_copy(update=new)


def not_used(line: str) -> Finding:
    """The form in which a report tells what was read about its subject and plays no part in its verdict."""
    return Finding(priority="LOW", category=NOT_USED, issue=f"read but not used: {line}", action="compare it with the causes above")


def _left_over(book: Runbook, evidence: BaseModel, found: Diagnosis) -> tuple[Finding, ...]:
    """Lines that report a failure and stand nowhere in the judgment."""
    said = [line for c in found.causes for line in c.evidence] + [f.issue for f in found.findings] + list(found.unknowns)
    told = " ".join((*said, found.headline))
    open_ = [f"{path}: {line}" for path in book.speaks for line in _failures(_words(evidence, path.split(".")), found)
             if line.strip()[:ENOUGH] not in told]  # fmt: skip
    new = tuple(dict.fromkeys(open_))
    more = (f"and {len(new) - MOST_LINES} more lines of that kind",) if len(new) > MOST_LINES else ()
    return tuple(not_used(line) for line in (*new[:MOST_LINES], *more))


def _failures(words: Sequence[str], found: Diagnosis) -> tuple[str, ...]:
    """Lines that report a failure which no cause of the judgment names."""
    from runbooks.triage.text import failures  # imports this package in its turn

    known = frozenset(c.slug for c in found.causes)
    return tuple(line for slug, line in failures("\n".join(words)) if slug not in known) if words else ()


def _words(value: Any, path: Sequence[str]) -> list[str]:
    """The text at a path of the evidence, as lines; of what is not there or was not read, none."""
    if isinstance(value, Known):
        value = value.value
    if isinstance(value, str):
        return value.splitlines() if not path else []
    if isinstance(value, tuple):
        return [line for item in value for line in _words(item, path)]
    return _words(getattr(value, path[0], None), path[1:]) if path and isinstance(value, BaseModel) else []

