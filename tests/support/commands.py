"""The command line's own registry, as tests walk it: every command with its parser, and what can be wrong with each option."""

import argparse
import io
import logging
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deployments.cli import restore
from deployments.cli import triage as cli_triage
from deployments.cli.parser import build_parser

PATHS = ("FILE", "DIR", "PATH", "PEM", "REPORT.json")
NUMBERS = ("0", "-1", "1000", "99999", "1" + "0" * 30, "1.5", "nan", "inf", "x", "")
TEXTS = ("", " ", "x" * 5000, "a\nb", "-", "~nobody-here/x", "a/../b", "☃\u202e", "\udcff", "=", "a=b", "'; true #", "{{ 7*7 }}")
EXPECTED = {
    ("run",): ["host-limits", "local", "--no-server"], ("lab",): [], ("approve",): ["abc"], ("reject",): ["abc"], ("show",): ["abc"],
    ("freeze",): ["a test"], ("bundle",): ["local", "--seconds", "0.2", "--out", "{out}"], ("replay",): ["{file}"],
    ("fleet", "check"): ["{file}"], ("fleet", "import"): ["hosts", "{file}"], ("alerts", "test"): ["{file}"],
    ("approver", "add"): ["ana"], ("approver", "remove"): ["ana"], ("restore",): ["{file}"], ("triage",): ["{file}"],
    ("new-runbook",): ["zombie-gpu"], ("logs",): ["{file}"],
}  # fmt: skip
"""What a command must be given; `{file}` and `{out}` are made by the test."""


Leaf = tuple[tuple[str, ...], argparse.ArgumentParser]


def leaves(parser: argparse.ArgumentParser | None = None, words: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every command that can be called, with its parser. triage and restore bring their own."""
    own = {("triage",): cli_triage._parser, ("restore",): restore.parser}
    if words in own:
        yield words, own[words]()
        return
    parser = parser or build_parser()
    below = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
    if below is None:
        yield words, parser
        return
    for name, sub in below.choices.items():
        yield from leaves(sub, (*words, name))


def bad_values(action: argparse.Action, files: dict[str, Path]) -> tuple[str, ...]:
    """What this option or argument can be given by mistake or by malice."""
    if action.type is not None:
        return NUMBERS
    if action.choices is not None:
        return ("nonsense", "")
    paths = tuple(str(p) for p in files.values()) if action.metavar in PATHS else ()
    return (*paths, *TEXTS)


def calls(words: tuple[str, ...], parser: argparse.ArgumentParser, files: dict[str, Path], out: Path) -> Iterator[list[str]]:
    """The command as it is meant, then with each option and argument wrong in turn."""
    given = [w.format(file=files["missing"], out=out) for w in EXPECTED.get(words, [])]
    yield [*words, *given]
    yield [*words, *given, "--no-such-option"]
    positional = [a for a in parser._actions if not a.option_strings and a.dest != "help"]
    for place, action in enumerate(positional):
        for value in bad_values(action, files):
            for kind in kinds(positional[:place], given):
                yield [*words, *kind, value, *given[place + 1 :]]
    for action in parser._actions:
        if not action.option_strings or isinstance(action, argparse._HelpAction):
            continue
        if action.nargs == 0:
            yield [*words, *given, action.option_strings[-1]]
        else:
            yield from ([*words, *given, f"{action.option_strings[-1]}={value}"] for value in bad_values(action, files))


def own_device(path: Path, minor: int) -> Path:
    """Like /dev/null (3) or /dev/zero (5), but nobody else's: what would take it away takes nothing from this machine."""
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, minor))
    return path


def kinds(before: list[argparse.Action], given: list[str]) -> Iterator[list[str]]:
    """What stands before an argument: each choice of the one before it, where that has choices."""
    last = before[-1].choices if before else None
    yield from ([*given[: len(before) - 1], str(choice)] for choice in last) if last else (given[: len(before)],)


def bad_files(folder: Path) -> dict[str, Path]:
    """Files that are none, each in its own way."""
    names = ("missing", "empty", "binary", "folder", "huge", "deep.json", "deep.yaml", "list.json", "not-utf8", "bomb")
    found = {name: folder / name for name in names}
    found["empty"].touch()
    found["binary"].write_bytes(bytes(range(256)) * 64)
    found["folder"].mkdir()
    with found["huge"].open("wb") as f:
        f.truncate(64 << 20)
    found["deep.json"].write_text("[" * 100_000)
    found["deep.yaml"].write_text("{a: " * 5_000)
    found["list.json"].write_text('[1, null, {"id": 3}]')
    found["not-utf8"].write_bytes(b"name: caf\xe9\n")
    found["bomb"].write_text("a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b]\nnodes: *b\n")
    return found | {
        "below a file": found["empty"] / "x",
        "nobody's": Path("/proc/1/nothing/here"),
        "no folder of ours": Path("/proc/gpu-runbooks"),
        "device": own_device(folder / "device", 3),
        "endless": own_device(folder / "endless", 5),
        "long": folder / ("n" * 300),
    }


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands in this process: a state folder of its own, nothing that stays; all that a command changes is put back."""
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00 text\n")))
    monkeypatch.setattr("uvicorn.Server.run", lambda self, *_: self.config.load())
    monkeypatch.setattr("deployments.watch.service.Watch.run", lambda _self: None)
    monkeypatch.setattr("deployments.cli.logs_follow.Follower.follow", lambda self: self.look())
    before, factory = dict(os.environ), logging.getLogRecordFactory()
    handlers, hooks = [signal.getsignal(s) for s in SIGNALS], (sys.excepthook, sys.stdin)
    try:
        yield
    finally:
        sys.excepthook, sys.stdin = hooks
        logging.setLogRecordFactory(factory)
        for s, handler in zip(SIGNALS, handlers, strict=True):
            signal.signal(s, handler)
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
