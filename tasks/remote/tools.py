"""Which programs of a node a runbook's readings call: found in the text of its readers and of the probes that they send there."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from runbooks.core.node_tools import TOOLS
from tasks.remote.program import probe_module, source_of

IMPORT = re.compile(r"^[ ]*from (tasks\.[\w.]+) import \(?\s*(\w+(?:,\s*\w+)*)", re.M)
SENT = re.compile(r'(?:run_probe|run_program|program)\([^"\n]*"(\w+)"|[(,=]\s*"(\w+_\w+)"')  # a probe's name; of two words: anywhere
FIRST = re.compile(rf'(?:\(|(?<![\w\])])\[)\s*"({"|".join(map(re.escape, TOOLS))})"')  # of a command, or of a call that is given one


def tools_of(folder: str) -> tuple[str, ...]:
    """Programs of TOOLS that the readings of the runbook in that folder call, in the order of the table."""
    named = {tool for called in modules_of(folder).values() for tool in called}
    return tuple(tool for tool in TOOLS if tool in named)


@cache
def modules_of(folder: str) -> dict[str, frozenset[str]]:
    """Every module that reads for the runbook in that folder, here or on the node, with the programs of TOOLS that it calls."""
    seen: dict[str, frozenset[str]] = {}
    _collect(f"tasks.{folder}.read", seen)
    return seen


def _collect(module: str, seen: dict[str, frozenset[str]]) -> None:
    """The module, and all that it imports or sends to a node."""
    if module in seen:
        return
    text = source_of(module)
    seen[module] = frozenset(FIRST.findall(text))
    for needed in (*_imports(text), *filter(None, map(_probe, map("".join, SENT.findall(text))))):
        _collect(needed, seen)


def _imports(text: str) -> Iterator[str]:
    """Modules that it names, those too that it takes from a package."""
    for module, names in IMPORT.findall(text):
        folder = resources.files("tasks").joinpath(*module.split(".")[1:])
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names)) if folder.is_dir() else (module,)


def _probe(word: str) -> str:
    try:
        return probe_module(word)
    except KeyError:
        return ""
