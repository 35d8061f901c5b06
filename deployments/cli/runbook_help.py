"""`run --help`, `run --help RUNBOOK` and the same of `list`: what a person asks before running something."""

import sys
from argparse import Namespace
from itertools import pairwise

from deployments.cli.list import the_head
from deployments.cli.parser import build_parser
from deployments.cli.runbook_words import in_full, in_help
from runbooks.core.catalog import runbook_heads


def runbook_help(args: list[str]) -> int:
    """`args`: the command line, with --help in it somewhere. Raises CommandError where it names a runbook that there is not."""
    heads = runbook_heads()
    *_, command = build_parser().chosen(Namespace(command=args[0]))
    values = {name for action in command._actions if action.nargs != 0 for name in action.option_strings}
    words = [word for before, word in pairwise(args) if not word.startswith("-") and before not in values]
    named = words[0] if words else ""
    if named:
        print(f"{in_full(the_head(named, heads))}\n\nusage: gpu-runbooks run {named} TARGET  (`gpu-runbooks run --help`: every option)")
        return 0
    command.print_help(sys.stdout)
    print(f"\n{in_help(heads)}")
    return 0
