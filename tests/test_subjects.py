"""Holds the folders: a subject has one name in every room, subjects meet in shared places only, no modules import in a circle, and no two
public classes have one name."""

import ast
from functools import cache
from pathlib import Path

from runbooks.core.knowledge import folder_of, runbook_slugs
from tasks.remote.program import probe_module, source_of

ROOT = Path(__file__).parents[1]
ROOMS = ("runbooks", "tasks", "flows", "deployments")
SUBJECTS = {folder_of(slug).partition(".")[0] for slug in runbook_slugs()}
OF_A_SUBJECT = ("Evidence", "Limits")  # each subject has its own
SHARED = {
    "runbooks": {"alerts", "core", "knowledge", "notify", "parsers", "triage"},
    "tasks": {"approvers", "clients", "notify", "remote", "systems", "transport"},
}


@cache
def graph() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, wherever in its text."""
    files = _files()
    return {name: {m for m in _imports(path, set(files)) if m in files} for name, path in files.items()}


def _files() -> dict[str, Path]:
    return {_name(p): p for room in ROOMS for p in (ROOT / room).rglob("*.py") if "__pycache__" not in p.parts}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path, ours: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {a.name: f"{node.module}.{a.name}" for a in node.names}
            found |= {full if full in ours else node.module for full in whole.values()}
    return found


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Modules that reach themselves, those that reach each other together. Sorted."""
    reach = {name: _reached(name, arrows) for name in arrows}
    within = {name: frozenset(o for o in reach[name] if name in reach[o]) for name in arrows if name in reach[name]}
    return sorted(sorted(group) for group in set(within.values()))


def _reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [*arrows[start]]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += arrows[name]
    return seen


def subject_of(module: str) -> str:
    """The subject of a module in runbooks/ or tasks/; "" of a shared one."""
    room, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return name if room in SHARED and name in SUBJECTS else ""


def test_a_subject_has_the_same_name_in_every_room() -> None:
    for room, shared in SHARED.items():
        found = {p.parent.name for p in (ROOT / room).glob("*/__init__.py")}
        assert found - shared == SUBJECTS, room


def test_subjects_meet_in_shared_places_only() -> None:
    found = {
        f"{name} -> {other}"
        for name, others in graph().items()
        for other in others
        if (mine := subject_of(name)) and (theirs := subject_of(other)) and mine != theirs
    }
    assert found == set(), "put what both need into a shared place, or have it given by the Context"


def test_what_is_shared_knows_no_subject() -> None:
    """Only `systems` may: it tries each system by the client of the subject that uses it."""
    found = {
        f"{name} -> {other}"
        for name, others in graph().items()
        for other in others
        if (parts := name.split("."))[0] in SHARED and not subject_of(name) and "systems" not in parts and subject_of(other)
    }
    assert found == set(), "a client and what it gives belong into tasks/clients and runbooks/parsers"


def test_no_modules_import_in_a_circle() -> None:
    assert circles(graph()) == []


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "d"}, "e": {"d"}}) == [["a", "b", "c"], ["d"]]


def test_a_probe_is_found_by_its_name() -> None:
    names = [p.stem for p in (ROOT / "tasks").glob("*/probes/*.py") if p.stem != "__init__"]
    assert len(names) == len(set(names)) > 60
    for name in names:
        assert source_of(name) == source_of(probe_module(name)) != ""


def classes() -> dict[str, set[str]]:
    """Name of each public class -> modules that define one. `Evidence` and `Limits` belong to a subject and are not told apart by name."""
    found: dict[str, set[str]] = {}
    for name, path in _files().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not (node.name in OF_A_SUBJECT and subject_of(name)):
                found.setdefault(node.name, set()).add(name)
    return found


def test_no_two_public_classes_have_the_same_name() -> None:
    found = classes()
    assert len(found) > 400
    assert {name: sorted(where) for name, where in found.items() if len(where) > 1} == {}
