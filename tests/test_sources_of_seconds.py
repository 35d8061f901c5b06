"""Every time that stands in the code says where it comes from: a judge's beside it, as the limits of a runbook.yaml do in `source`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAID = {
    "runbooks": r"# (source|design|recordings?): \S.{20,}",  # what a verdict may turn on
    "tasks": r"# \S.{8,}",
}


def times(text: str) -> Iterator[tuple[str, str]]:
    """(name, its line) of every constant of a module that is a number of seconds or milliseconds."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
        for name in names:
            if isinstance(name, ast.Name) and re.search(r"_M?S\Z", name.id) and name.id.isupper() and _number(node.value):
                yield name.id, lines[node.lineno - 1]


def _number(value: "ast.expr | None") -> bool:
    """Whether it is made of numbers alone."""
    return value is not None and all(
        isinstance(n, ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.Tuple | ast.Load) or
        (isinstance(n, ast.Constant) and isinstance(n.value, int | float))
        for n in ast.walk(value)
    )  # fmt: skip


@pytest.mark.parametrize("room", sorted(SAID))
def test_each_says_where_it_comes_from(room: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}": bool(re.search(SAID[room], line))
        for path in sorted((ROOT / room).rglob("*.py"))
        for name, line in times(path.read_text(encoding="utf-8"))
    }
    assert len(found) > 10
    assert sorted(name for name, said in found.items() if not said) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("WAIT_S = 5.0", False),
        ("_WAIT_S = 60 * 10  # a while", False),
        ("A_S, B_MS = 5.0, 20  # it takes about that long, mostly", False),
        ("WAIT_S: float = 5.0  # design: two readings one scheduler tick apart cannot differ more", True),
    ],
)
def test_a_bare_number_is_found(line: str, said: bool) -> None:
    found = [bool(re.search(SAID["runbooks"], text)) for _, text in times(line)]
    assert found
    assert all(one is said for one in found)


def test_what_is_no_time_is_left_out() -> None:
    assert list(times('NAMES_S = ("a", "b")\nMOST = 5\nwait_s = 4')) == []
