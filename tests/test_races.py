"""The table of what comes between a look and a change: every action kind is in it, and everything that it names exists."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flows.engine.actions import ACTIONS
from tasks.remote import unseen
from tests.support.yaml_file import read_yaml

RACING = ("tests.support.racing", "tests.support.reused_pid")
AT_ONCE = {"ThreadPoolExecutor", "Thread", "Timer"}
Named = ast.FunctionDef | ast.ClassDef
ROOT = Path(__file__).parents[1]
ROWS: dict[str, dict[str, Any]] = read_yaml(ROOT / "tests" / "races.yaml")


@cache
def module_of(text: str) -> tuple[dict[str, Named], frozenset[str]]:
    """(its functions and classes by name, what it imports from the racers)."""
    body = ast.parse(text).body
    racers = [a.asname or a.name for n in body if isinstance(n, ast.ImportFrom) and n.module in RACING for a in n.names]
    return {n.name: n for n in body if isinstance(n, Named)}, frozenset(racers)


def reached(text: str, test: str) -> list[Named]:
    """The test, and every function and class of its file that it uses, also through others."""
    found, left, named = list[Named](), [test], dict(module_of(text)[0])
    while left:
        one = named.pop(left.pop(), None)
        if one is not None:
            found.append(one)
            left += [n.id for n in ast.walk(one) if isinstance(n, ast.Name)]
    return found


def hooks(test: Named) -> bool:
    """It puts a function of its own in the place of one that is called on the way: monkeypatch.setattr, or a probe's name."""
    own, put = {n.name for n in ast.walk(test) if isinstance(n, ast.FunctionDef)}, list[ast.expr]()
    for n in ast.walk(test):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "setattr":
            put += n.args
        elif isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Subscript):
            put.append(n.value)
    return any(isinstance(a, ast.Name) and a.id in own for a in put)


def races(text: str, test: str) -> bool:
    """Somebody writes in it while the probe works: by a racer, a hook of its own, or a thread. A name alone is none."""
    parts, racers = reached(text, test), module_of(text)[1]
    used = {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}
    used |= {n.attr for part in parts for n in ast.walk(part) if isinstance(n, ast.Attribute)}
    return bool(parts) and test.startswith("test_") and bool(used & (racers | AT_ONCE) or any(hooks(p) for p in parts))


def test_every_kind_of_change_is_in_it() -> None:
    assert sorted(ROWS) == sorted(k for k in ACTIONS if not k.startswith("toy-"))


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_is_whole(kind: str) -> None:
    """Closed, or the report says that it is not; and somebody tries it."""
    row = ROWS[kind]
    assert set(row) in ({"looks at", "changes", "closed", "tests"}, {"looks at", "changes", "unseen", "why", "tests"})
    assert all(row.values())
    quiet = [t for t in row["tests"] if not races((ROOT / t.partition("::")[0]).read_text(encoding="utf-8"), t.partition("::")[2])]
    assert quiet == [], "nobody writes there between the look and the change"


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ("pod.locked = True\n    setattr(pod, 'locked', True)\n    act(pod)", False),  # changed before it begins
        ("with meanwhile(Client, 'pod', other):\n        act()", True),
        ("helper()", True),
        ("def late(): pass\n    monkeypatch.setattr(Client, 'pod', late)\n    act()", True),
        ("monkeypatch.setattr(Client, 'pod', 3)\n    act()", False),
        ("Timer(1, other).start()\n    act()", True),
    ],
)
def test_what_counts_as_a_writer(body: str, is_one: bool) -> None:
    text = f"from {RACING[0]} import meanwhile\ndef helper():\n    meanwhile(a, 'b', c)\ndef test_x(monkeypatch):\n    {body}\n"
    assert races(text, "test_x") is is_one
    assert not races(text, "test_y")
    assert not races(text, "helper")


@pytest.mark.parametrize("kind", [k for k, row in ROWS.items() if "unseen" in row])
def test_what_a_report_says_of_a_window_stands_in_its_code(kind: str) -> None:
    for file, words in ROWS[kind]["unseen"].items():
        text = (ROOT / file).read_text(encoding="utf-8")
        assert words in text, f"{file} does not say {words!r}"
    assert "could not be seen" in unseen.UNSEEN
