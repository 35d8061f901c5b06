"""Foreign text cannot be forgotten: only show.py makes what is not escaped again, and only of literal templates."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("runbooks", "tasks", "flows", "deployments")
MADE = {"Markdown", "Html", "Chat"}
FILLED = {"markdown", "html", "chat_text"}
MAKERS = {"runbooks/core/show.py", "runbooks/core/render.py"}  # render.py: the templates, whose expressions are escaped


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Every call by a plain name: file, call, name."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "core.show" in text:
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                        yield str(path.relative_to(ROOT)), node, node.func.id


def literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_only_literal_text_is_taken_as_it_stands() -> None:
    found = [
        f"{file}:{call.lineno}"
        for file, call, name in calls()
        if (name in FILLED or (name in MADE and file not in MAKERS)) and not (call.args and literal(call.args[0]))
    ]
    assert found == []


def test_a_stored_page_is_taken_as_it_stands_where_ours_are_read_again() -> None:
    assert {file for file, _, name in calls() if name == "kept"} == {
        "runbooks/core/unmark.py",
        "flows/artifacts.py",
        "flows/engine/open_question.py",
        "deployments/cli/show.py",
    }


def test_the_calls_are_found() -> None:
    assert {name for _, _, name in calls()} >= FILLED | {"Markdown", "Html"}


def test_the_old_ways_are_gone() -> None:
    """One place: no other module escapes, or takes codes out of a text."""
    words = ("html.escape", "import escape", "isprintable()", "autoescape=True", "Markup(")
    allowed = {"runbooks/core/show.py", "tasks/remote/probes/proc.py", "runbooks/core/worker_ids.py", "deployments/cli/approver.py"}
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for word in words
        if word in path.read_text(encoding="utf-8") and str(path.relative_to(ROOT)) not in allowed
    ]
    assert found == []
