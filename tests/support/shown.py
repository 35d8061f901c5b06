"""The texts that the program shows: help, the table of refusals, forms, kinds of action, outcomes, templates, messages."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from deployments.cli.parser import build_parser
from deployments.cli.restore import parser as restore_parser
from deployments.cli.triage import _parser as triage_parser
from flows.runbooks import ROWS
from flows.standard import A_PLAN, ARGS, CHANGES, NO_CHANGES, NO_OPTIONS, NO_PLANS, SOME_OPTIONS
from runbooks.core.kinds import KINDS
from runbooks.core.outcome import TABLE as OUTCOMES
from runbooks.core.refusal import TABLE
from runbooks.core.undo import in_words

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "runbooks/core/templates"
STORED = ("not begun",)  # words that reports of earlier versions hold


def helps() -> list[str]:
    """Description, end and options of every command."""
    return [text for parser in (build_parser(), restore_parser(), triage_parser()) for text in _help(parser)]


def _help(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield parser.description or ""
    yield from (parser.epilog or "").splitlines()
    for action in parser._actions:
        if action.help and action.help is not argparse.SUPPRESS:
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            yield from (choice.help or "" for choice in action._choices_actions)
            for sub in action.choices.values():
                yield from _help(sub)


def refusals() -> list[str]:
    """What each code means, and what a person does."""
    return [text for row in TABLE.values() for text in row]


def forms() -> list[str]:
    """What the forms in the UI say of each runbook and of each field."""
    fields = [line.strip() for line in ARGS.splitlines() if line.strip()]
    return [*(text for row in ROWS.values() for text in row), *fields, CHANGES, NO_CHANGES, NO_OPTIONS, NO_PLANS, A_PLAN, SOME_OPTIONS]


def actions() -> list[str]:
    """What each kind of action changes, how it is proven and how it is undone."""
    return [text for row in KINDS.values() for text in (row.changes, row.proven, in_words(row.undone))]


def outcomes() -> list[str]:
    """What a report and a notification say of each outcome."""
    return [text for row in OUTCOMES.values() for text in (row.name, row.report, row.message)]


def templates() -> list[str]:
    """The words of the report's and the nightly's template."""
    found = []
    for path in sorted(TEMPLATES.glob("*.j2")):
        text = re.sub(r"\{\{.*?\}\}", "X", re.sub(r"\{%.*?%\}", "", path.read_text(encoding="utf-8")))
        found += [part for line in text.splitlines() for part in line.strip("-#* |").split("|") if " " in part.strip()]
    return found


def messages() -> list[str]:
    """Every text on one line in flows, deployments and tasks, but for docstrings and what the lab's stand-ins say; a value is X."""
    files = [p for room in ("deployments", "flows", "tasks") for p in sorted((ROOT / room).rglob("*.py")) if "lab" not in p.parts]
    texts = [text for path in files for text in _texts(ast.parse(path.read_text(encoding="utf-8")))]
    return [text for text in texts if "\n" not in text and " " in text.strip() and text not in STORED]


def _texts(tree: ast.AST) -> Iterator[str]:
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (parts | bare):
            yield node.value
