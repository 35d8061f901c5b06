"""Finds the lines that mean something: begin of a cycle, what it decided, what it did. Pure."""

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from runbooks.core.logs_config import LogMark

LONGEST = 4096  # characters of a message that are searched
_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_BACK = re.compile(r"\(\?P=|\\[1-9]|\(\?\(")


class Meaning(NamedTuple):
    """What a line means."""

    kind: str
    phase: str
    cycle: int | None
    numbers: dict[str, float]


class Marks:
    """The patterns of a shape. One search tells whether any of them is in a line: nearly all lines have none."""

    def __init__(self, marks: Sequence[LogMark]) -> None:
        self._marks = [(re.compile(m.pattern), m) for m in marks]
        bare = [_GROUP_NAME.sub("(?:", m.pattern) for m in marks]
        joined = all(not _BACK.search(text) and "(?" not in text.replace("(?:", "") for text in bare)
        self._any = re.compile("|".join(f"(?:{text})" for text in bare)) if joined and bare else None

    def find(self, message: str) -> Meaning | None:
        """The first pattern that is in the message."""
        text = message[:LONGEST]
        if self._any is not None and not self._any.search(text):
            return None
        for pattern, mark in self._marks:
            if hit := pattern.search(text):
                return _meaning(mark, hit.groupdict())
        return None


def _meaning(mark: LogMark, groups: dict[str, str | None]) -> Meaning:
    numbers: dict[str, float] = counts_of(groups.pop("counts", None) or "")
    for name, text in groups.items():
        if (number := _number(text)) is not None:
            numbers[name] = number
    cycle = numbers.pop("cycle", None)
    return Meaning(mark.kind, mark.phase, int(cycle) if cycle is not None else None, numbers)


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if abs(found) < 1e15 else None


def counts_of(text: str) -> dict[str, float]:
    """The numbers of a dictionary as Python prints it (`{'workers_promoted': 1}`) or as JSON; {} for anything else."""
    if not text.startswith("{") or len(text) > LONGEST:
        return {}
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        str(k)[:60]: float(v)
        for k, v in found.items()
        if isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e15
    }
