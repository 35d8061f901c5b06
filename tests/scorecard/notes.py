"""What a test did to the engine: faults, the runbook, the kinds of action that really began. Active under $SCORECARD.

A test notes nothing itself where it uses the harness's worlds; `@pytest.mark.scored(fault=…, point=…)` says what a test does
that plants its fault by hand: on a file what none of its worlds noted, on a test what it does besides.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "SCORECARD"
BY_HAND, NO_FAULT = "by hand", "none"
STAND_INS = "(stand-ins)"  # of a world whose actions are of every kind, and change nothing


class Noted:
    """What the test that runs now has done so far."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str]] = []
        self.worlds: list[tuple[str, Callable[[], list[Any]]]] = []
        self.tries = 1


NOW = Noted()


def active() -> bool:
    """True while a scorecard is being made."""
    return bool(os.environ.get(FOLDER))


def begin_test() -> None:
    """Forgets what the last test did."""
    NOW.faults.clear()
    NOW.worlds.clear()
    NOW.tries = 1


def world(runbook: str, acts: Callable[[], list[Any]]) -> None:
    """A world of the harness: `acts` lists its action runs."""
    NOW.worlds.append((runbook, acts))


def fault(what: str, point: str) -> None:
    """A fault that was planted: `what` strikes at `point`."""
    NOW.faults.append((what, point))


def tries(what: str, point: str, count: int) -> None:
    """A fault that one test plants so many times."""
    fault(what, point)
    NOW.tries = count


def kinds_begun(began: Callable[[Any], bool]) -> list[tuple[str, str]]:
    """(runbook, action kind) of every action that began in this test's worlds."""
    found = set()
    for runbook, acts in NOW.worlds:
        begun = [str(k) for a in acts() if began(a) for k in a.parameters.get("kinds", ())]
        found |= {(runbook, kind) for kind in begun} or {(runbook, "")}
    return sorted(found)


def write(**line: Any) -> None:
    """Adds a line to this process's notes."""
    path = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
    with path.open("a", encoding="utf-8") as f:
        f.write(json.dumps(line) + "\n")
