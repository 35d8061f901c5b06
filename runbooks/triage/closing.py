"""The error with which a program's words end, told from one that it survived. Pure."""

import re
from functools import lru_cache

from runbooks.triage.model import TriageResult
from runbooks.triage.text import Text, failing_lines, judge_lines

WENT_ON = 3  # this many ordinary lines of kinds that stood before the error as well: the work went on after it
_MILD = re.compile(r"(?<![\w-])(?<!NCCL )(?:WARN(?:ING)?|NOTICE|INFO|DEBUG|TRACE)(?![\w-])")  # NCCL tells its errors as warnings
_GRAVE = re.compile(r"(?<![\w-])(?:ERR(?:OR)?|FATAL|CRIT(?:ICAL)?|PANIC|SEVERE)(?![\w-])|Error\b|Exception\b")
SHAPE = 40  # characters that tell a kind of line, numbers left out


def closing_error(text: Text) -> tuple[str, ...]:
    """Lines that report a failure and after which the work did not go on, in order; () where none does.

    Work goes on where lines of the kinds that stood before the error come again after it. A line of a new kind right
    before the error is part of it. A line that calls itself a warning or less, and is of no known cause, ends nothing.
    What a stack dump says below its first line (indented) counts for neither.
    """
    whole = text if isinstance(text, str) else "\n".join(text)
    return _closing(whole)


@lru_cache(maxsize=32)
def _closing(whole: str) -> tuple[str, ...]:
    lines, begin, known = whole.splitlines(), 0, frozenset[str]()
    while True:
        outcome = judge_lines("\n".join(lines[begin:])) if lines[begin:] else TriageResult(verdict="nothing")
        mild = {line.number for line in outcome.unexplained if _MILD.search(line.text) and not _GRAVE.search(line.text)}
        said = {n: line for n, line in failing_lines(outcome).items() if n not in mild}
        failing = {n + begin: line for n, line in said.items() if 0 < n + begin <= len(lines)}
        last, known = _went_on(lines, begin, failing, known)
        if not last:
            return _with_lead(lines, failing)
        begin = last  # what stood before hides nothing of what comes after


def _went_on(
    lines: list[str], begin: int, failing: dict[int, str], known: frozenset[str]
) -> tuple[int, frozenset[str]]:
    """(number of the last failing line after which the work went on, 0 for none; kinds of ordinary lines before it)."""
    before, last, kinds, then = set(known), 0, [_kind(line) for line in lines], known
    for n in range(begin + 1, len(lines) + 1):
        if n in failing:
            after = [k for m, k in enumerate(kinds[n:], n + 1) if m not in failing and k in before]
            last, then = (n, frozenset(before)) if len(after) >= WENT_ON else (last, then)
        elif kinds[n - 1]:
            before.add(kinds[n - 1])
    return last, then


def _with_lead(lines: list[str], failing: dict[int, str]) -> tuple[str, ...]:
    """The failing lines, and the line right before the first of them where it is the only one of its kind."""
    if not failing:
        return ()
    first = min(failing)
    lead = lines[first - 2].strip() if first > 1 else ""
    alone = lead and _kind(lines[first - 2]) and sum(_kind(x) == _kind(lines[first - 2]) for x in lines) == 1
    return (*([lead[:300]] if alone else []), *(failing[n] for n in sorted(failing)))


def _kind(line: str) -> str:
    """What a line looks like without its numbers; "" for what says nothing of the work."""
    return "" if not line.strip() or line[0].isspace() else re.sub(r"\d+", "0", line)[:SHAPE]
