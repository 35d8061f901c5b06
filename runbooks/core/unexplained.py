"""Healthy beside an unexplained error is not healthy: what was read in words and reports a failure must be explained by a cause.

runbook.yaml names where the evidence holds words (`speaks`). What they say is judged by the knowledge base alone. Pure.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from runbooks.core.knowledge import Runbook
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis, State

MOST_LINES = 3  # shown


def explained(book: Runbook, evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment; cannot-tell in place of healthy where something that was read reports a failure of no cause."""
    if found.state is not State.HEALTHY or not book.speaks:
        return found
    open_ = [(path, line) for path in book.speaks for line in _failures(_words(evidence, path.split(".")), found)]
    if not open_:
        return found
    said = tuple(dict.fromkeys(f"unexplained, in {path}: {line}" for path, line in open_))
    headline = f"cannot tell: {said[0]}; else: {found.headline}"
    new = {"state": State.CANNOT_TELL, "headline": headline, "unknowns": (*said[:MOST_LINES], *found.unknowns)}
    return found.model_copy(update=new)


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

