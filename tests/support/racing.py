"""Somebody else who writes between a check and a change: at every step in turn, or as a process of its own, again and again."""

import builtins
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver
from deployments.lab.gpu_state import StubState
from tasks.remote.probes import aside

CALLS = ("open", "lstat", "stat", "scandir", "listdir", "readlink", "unlink", "rmdir", "rename", "replace", "link", "symlink",
         "mkdir", "chmod")  # fmt: skip
ON_FD = ("read", "write", "pread", "pwrite", "fstat", "fchmod", "fchown", "fsync", "ftruncate")


class Steps:
    """Counts calls of the operating system about a folder; right before call number `at` the other one writes."""

    def __init__(self, root: Path, at: int, other: Callable[[], None]) -> None:
        self.root, self.at, self.other, self.seen, self.wrote = str(root), at, other, 0, False

    def step(self) -> None:
        """One more call."""
        self.seen += 1
        if self.seen == self.at:
            self.wrote = True
            self.other()

    def about(self, args: tuple[Any, ...], more: dict[str, Any]) -> bool:
        """Whether a call is about the folder: by a path below it, or by a name in an opened folder."""
        return not self.wrote and (more.get("dir_fd") is not None or self.root in str(args[:1]))


@contextmanager
def writing_at(root: Path, at: int, other: Callable[[], None], on_fd: bool = False) -> Iterator[Steps]:
    """`other` writes right before the probe's call number `at` about `root`."""
    steps = Steps(root, at, other)
    with pytest.MonkeyPatch.context() as patch:

        def hook(module: Any, name: str, every: bool) -> None:
            real = getattr(module, name)

            def call(*args: Any, **more: Any) -> Any:
                if (every and not steps.wrote) or steps.about(args, more):
                    steps.step()
                return real(*args, **more)

            patch.setattr(module, name, call)

        for name in CALLS:
            hook(os, name, every=False)
        for name in ON_FD if on_fd else ():
            hook(os, name, every=True)
        hook(aside, "rename2", every=False)
        hook(builtins, "open", every=False)
        yield steps


def every_step(root: Path, run: Callable[[int], Steps], stride: int = 1, most: int = 2000) -> int:
    """Runs it with a writer before its first call, its second (or each so many) … until it ends before the writer's turn.
    How many calls there were."""
    for at in range(1, most, stride):
        if not run(at).wrote:
            return at - 1
    raise AssertionError("it never ended before the writer's turn")


@contextmanager
def meanwhile(owner: Any, name: str, other: Callable[[], object], *, turn: int = 1, before: bool = False) -> Iterator[None]:
    """`other` writes right after (or `before`) call number `turn` of `owner.name`: of a class, a module, or the names of a probe
    (a dict). Fails where that call never came: then nobody raced."""
    table = isinstance(owner, dict)
    real, calls = owner[name] if table else inspect.getattr_static(owner, name), []
    bound = owner[name] if table else getattr(owner, name)

    def call(*args: Any, **more: Any) -> Any:
        calls.append(name)
        mine = len(calls) == turn
        if mine and before:
            other()
        found = bound(*args, **more)
        if mine and not before:
            other()
        return found

    def put(what: Any) -> None:
        owner.__setitem__(name, what) if table else setattr(owner, name, what)

    put(call)
    try:
        yield
    finally:
        put(real)
    assert len(calls) >= turn, f"{name} was called {len(calls)} times: nobody wrote"


def before_call(driver: StubDriver, at: int, then: StubState) -> Path:
    """Right before call number `at` of nvidia-smi the driver's state becomes `then`. The file that holds what was asked."""
    asked, after = driver.folder / "asked", driver.folder / "then"
    then.write(after)
    real = driver.smi.with_name("real")
    driver.smi.rename(real)
    driver.smi.write_text(
        f'#!/bin/sh\necho "$@" >>{asked}\n[ "$(wc -l <{asked})" = {at} ] && cp {after} {driver.state}\nexec {real} "$@"\n'
    )
    driver.smi.chmod(0o755)
    return asked


@contextmanager
def process(code: str, *args: str) -> Iterator["subprocess.Popen[str]"]:
    """A writer as a process of its own: `code` gets `args`; it is told to go on by a line on its stdin."""
    p = subprocess.Popen([sys.executable, "-c", code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield p
    finally:
        p.kill()
        p.wait(10)
