"""Builds the one constant program that runs on a node: the checkers of runbooks/parsers/ckpt_* and one script behind
them."""

from functools import cache
from importlib import resources

MODULES = (
    "types",
    "machine",
    "pickle",
    "zip",
    "groups",
    "gguf",
    "msgpack",
    "formats",
    "tensors",
    "torch",
    "legacy",
    "safetensors",
    "sniff",
    "marker",
    "dcp",
    "manifest",
    "needs",
    "agree",
    "set",
    "crc",
    "finite",
    "content",
)
LOADER = """
import sys, types
def _module(name, text, package=False):
    module = types.ModuleType(name)
    if package:
        module.__path__ = []
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
for _name in ("runbooks", "runbooks.parsers", "tasks", "tasks.probes"):
    _module(_name, "", True)
for _name, _text in SOURCES:
    _module(_name, _text)
"""


@cache
def bundle(script: str, *extra: str) -> str:
    """The program whose main part is tasks/probes/<script>.py; `extra` are probes that it imports. Always the same
    text."""
    modules = ["runbooks.parsers.file_magic", *(f"runbooks.parsers.ckpt_{m}" for m in MODULES)] + [
        "tasks.probes.ckpt_fs",
        "tasks.probes.ckpt_holders",
        "tasks.probes.below",
        "tasks.probes.ckpt_files",
        "tasks.probes.ckpt_names",
        *(f"tasks.probes.{name}" for name in extra),
    ]
    return program(tuple(modules), script)


def program(modules: tuple[str, ...], script: str) -> str:
    """One program without imports of ours: the modules, in the order in which they need each other, then the script."""
    parts = [(name, _read(*name.rsplit(".", 1))) for name in modules]
    main = _read("tasks.probes", script).replace("from __future__ import annotations\n", "", 1)
    return f"from __future__ import annotations\nSOURCES = {parts!r}\n{LOADER}\n{main}"


def _read(package: str, name: str) -> str:
    return (resources.files(package) / f"{name}.py").read_text(encoding="utf-8")
