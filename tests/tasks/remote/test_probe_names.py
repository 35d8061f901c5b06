"""A probe is sent as one program with the modules that it imports in front: no two of them may define the same name."""

import ast
from pathlib import Path

import pytest

from tasks.remote.probe import probe_text

TASKS = Path(__file__).parents[3] / "tasks"


def defined(text: str) -> list[str]:
    """Names that the program gives at its top level; those of Python's own modules may come again."""
    found: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return found


@pytest.mark.parametrize("name", sorted(p.stem for p in TASKS.glob("*/probes/*.py") if p.stem != "__init__"))
def test_each_name_once(name: str) -> None:
    names = defined(probe_text(name))
    assert sorted({n for n in names if names.count(n) > 1} - {"main"}) == []  # the last one is run
