"""The table of what comes between a look and a change: every action kind is in it, and everything that it names exists."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.engine.actions import ACTIONS
from tasks.remote import unseen

ROOT = Path(__file__).parents[1]
ROWS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "races.yaml").read_text(encoding="utf-8"))


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))


def test_every_kind_of_change_is_in_it() -> None:
    assert sorted(ROWS) == sorted(k for k in ACTIONS if not k.startswith("toy-"))


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_is_whole(kind: str) -> None:
    """Closed, or the report says that it is not; and somebody tries it."""
    row = ROWS[kind]
    assert set(row) in ({"looks at", "changes", "closed", "tests"}, {"looks at", "changes", "unseen", "why", "tests"})
    assert all(row.values())
    missing = [t for t in row["tests"] if t.partition("::")[2] not in named_in(t.partition("::")[0])]
    assert missing == []


@pytest.mark.parametrize("kind", [k for k, row in ROWS.items() if "unseen" in row])
def test_what_a_report_says_of_a_window_stands_in_its_code(kind: str) -> None:
    for file, words in ROWS[kind]["unseen"].items():
        text = (ROOT / file).read_text(encoding="utf-8")
        assert words in text, f"{file} does not say {words!r}"
    assert "could not be seen" in unseen.UNSEEN
