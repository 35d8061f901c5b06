"""Builds one program of a script for a node and the modules that it imports. Knows where every probe lies."""

from functools import cache
from importlib import resources

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


def program(modules: tuple[str, ...], script: str) -> str:
    """One program without imports of ours: the modules, in the order in which they need each other, then the script."""
    parts = [(name, source_of(name)) for name in map(probe_module, modules)]
    main = source_of(script).replace("from __future__ import annotations\n", "", 1)
    return f"from __future__ import annotations\nSOURCES = {parts!r}\n{LOADER}\n{main}"
