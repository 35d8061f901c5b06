"""Builds the program that a node is sent: a script, and before it every module of ours that it imports. Knows where each probe lies."""

import re
from functools import cache
from importlib import resources

OURS = ("tasks.", "runbooks.")
IMPORT = re.compile(rf"^[ ]*from ((?:{'|'.join(map(re.escape, OURS))})[\w.]+) import", re.M)  # no ast: see tasks/parsed.py
FUTURE = "from __future__ import annotations\n"
LOADER = """
import sys, types
def _module(name, text, package=False):
    module = types.ModuleType(name)
    if package:
        module.__path__ = []
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
for _name, _ in SOURCES:
    for _end in [n for n, c in enumerate(_name) if c == "."]:
        if _name[:_end] not in sys.modules:
            _module(_name[:_end], "", True)
for _name, _text in SOURCES:
    _module(_name, _text)
"""


@cache
def _probes() -> dict[str, str]:
    """Bare name -> module of every probe. Raises ValueError where two share a name."""
    found: dict[str, str] = {}
    for subject in resources.files("tasks").iterdir():
        folder = subject.joinpath("probes")
        for file in folder.iterdir() if folder.is_dir() else ():
            name = file.name.removesuffix(".py")
            if file.name == name or name == "__init__":
                continue
            if name in found:
                raise ValueError(f"two probes named {name}: {found[name]} and tasks.{subject.name}.probes.{name}")
            found[name] = f"tasks.{subject.name}.probes.{name}"
    return found


def probe_module(name: str) -> str:
    """The probe's module, by its bare name or that module's own. Raises KeyError if there is none."""
    return name if "." in name else _probes()[name]


def source_of(name: str) -> str:
    """The text of a module, or of a probe by its bare name."""
    package, _, stem = probe_module(name).rpartition(".")
    return (resources.files(package) / f"{stem}.py").read_text(encoding="utf-8")


def parts(script: str) -> tuple[tuple[str, str], ...]:
    """(module, text) of everything of ours that a probe imports, each behind what it needs itself; the probe last."""
    found: dict[str, str] = {}
    _add(probe_module(script), found)
    return tuple(found.items())


def _add(module: str, found: dict[str, str]) -> None:
    text = source_of(module)
    for needed in IMPORT.findall(text):
        if needed not in found:
            _add(needed, found)
    found[module] = text


@cache
def program(script: str) -> str:
    """The program of the probe `script`: it needs nothing of ours on the node. Always the same text."""
    *needed, (_, main) = parts(script)
    head = FUTURE if FUTURE in main else ""
    return f"{head}SOURCES = {needed!r}\n{LOADER}\n{main.replace(FUTURE, '', 1)}" if needed else main
