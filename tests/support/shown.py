"""The texts that the program shows about itself: help, the table of refusals, forms, kinds of action."""

import argparse
from collections.abc import Iterator

from deployments.cli.parser import build_parser
from deployments.cli.restore import parser as restore_parser
from deployments.cli.triage import _parser as triage_parser
from flows.runbooks import ROWS
from flows.standard import A_PLAN, ARGS, NO_OPTIONS, NO_PLANS, SOME_OPTIONS
from runbooks.core.kinds import KINDS
from runbooks.core.refusal import TABLE


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
    return [*(text for row in ROWS.values() for text in row), *fields, NO_OPTIONS, NO_PLANS, A_PLAN, SOME_OPTIONS]


def actions() -> list[str]:
    """What each kind of action changes, how it is proven and how it is undone."""
    return [text for row in KINDS.values() for text in (row.changes, row.proven, row.undone)]
