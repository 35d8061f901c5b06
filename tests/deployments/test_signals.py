"""Ctrl-C, SIGTERM and a closed terminal to real commands at work: exit codes 130, 143 and 129, no traceback, and nothing is left
running, open or half done."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from deployments.state import auth_string
from flows import store
from flows.engine.guards import FREEZE
from flows.engine.state_table import OPEN
from tasks.this_machine import start_ticks
from tests.support.cli import CLI
from tests.support.engine_rig import Rig, World
from tests.support.waiting import until

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM", signal.SIGHUP: "ended by SIGHUP: the terminal was closed"}
REPORTED = {
    signal.SIGINT: "interrupted by a person (Ctrl-C)", signal.SIGTERM: "told to end (SIGTERM)",
    signal.SIGHUP: "its terminal was closed (SIGHUP)",
}  # fmt: skip
SLOW = ("python3", "dmesg")  # which every look at a machine needs, or a bundle
STUB = '#!/bin/sh\necho $$ >>"$STUBBED"\nexec sleep 300\n'
LONGEST_S = 20.0


def as_at_a_terminal() -> None:
    """Tests that run in the background, or under nohup, pass ignored signals on."""
    for sign in CODES:
        signal.signal(sign, signal.SIG_DFL)


class Command:
    """A real process that is told to end by one of the signals once it is at work."""

    def __init__(self, sign: signal.Signals, folder: Path, api: str, words: list[str]) -> None:
        self.sign, self.folder = sign, folder / sign.name
        self.began, self.out = self.folder / "began", self.folder / "out"
        self.out.mkdir(parents=True)
        fleet = self.folder / "fleet.yaml"
        fleet.write_text(f"name: {folder.name}-{sign.name}\nnodes: [{{name: here, local: true}}]\n")
        plain = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        own = {"GPU_RUNBOOKS_HOME": str(self.folder / "home"), "STUBBED": str(self.began), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        server = {"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": auth_string()}
        argv = [w.format(out=self.out, fleet=fleet) for w in words]
        self.process = subprocess.Popen(
            [*CLI, *argv], env=plain | own | server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder,
            preexec_fn=as_at_a_terminal,
        )  # fmt: skip
        self.said = ""
        self.reader = Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    def reads(self) -> bool:
        """A command of it is at work."""
        return self.began.exists() and bool(self.began.read_text().strip())

    def ends(self) -> None:
        """By its signal, in time, and with all that it has started."""
        self.process.send_signal(self.sign)
        code = self.process.wait(LONGEST_S)
        self.reader.join(10)
        assert code == CODES[self.sign], self.said
        assert "Traceback" not in self.said, self.said
        assert SAID[self.sign] in self.said
        pids = self.began.read_text().split() if self.began.exists() else []
        until(lambda: all(start_ticks(int(pid)) is None for pid in pids), 5, f"the end of {pids}")


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """Programs that begin and never end."""
    for name in SLOW:
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(STUB)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@contextmanager
def each(rig: Rig, folder: Path, words: list[str]) -> Iterator[list[Command]]:
    """One for each of the signals, side by side."""
    made = [Command(sign, folder, rig.state.api, words) for sign in CODES]
    try:
        yield made
    finally:
        for command in made:
            with suppress(ProcessLookupError):
                command.process.kill()
            command.process.wait()


def at_work(made: list[Command], what: Callable[[Command], bool] = Command.reads) -> None:
    until(lambda: all(what(c) or c.process.poll() is not None for c in made), 60)
    assert all(what(c) for c in made), [c.said for c in made]


READING = {
    "run": ["run", "host-limits", "here", "--fleet", "{fleet}", "--out", "{out}"],
    "run --no-server": ["run", "host-limits", "here", "--fleet", "{fleet}", "--out", "{out}", "--no-server"],
    "nightly": ["nightly", "--fleet", "{fleet}", "--out", "{out}"],
    "bundle": ["bundle", "here", "--fleet", "{fleet}", "--out", "{out}"],
}


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_a_command_that_reads(rig: Rig, nothing_left: None, bin_folder: Path, words: list[str]) -> None:
    before = {r.id for r in store.find_runs([store.RUNBOOK_TAG], OPEN)}
    with each(rig, bin_folder, words) as made:
        at_work(made)
        for command in made:
            command.ends()
    assert [r.name for r in store.find_runs([store.RUNBOOK_TAG], OPEN) if r.id not in before] == []
    left = [p.name for command in made for p in command.out.rglob("*") if p.name.startswith(".")]
    assert left == [], "half written"
    if words[0] == "run" and "--no-server" not in words:
        for command in made:
            (headline,) = [json.loads(p.read_text())["headline"] for p in command.out.rglob("2*.json")]
            assert headline == f"the run was ended early: {REPORTED[command.sign]}", headline
    if words[0] in ("bundle", "nightly"):
        assert [p for command in made for p in command.out.rglob("2*") if "host-limits" in str(p)] == [], "it says nothing of a look"


def test_approve_that_waits_for_a_worker(rig: Rig, nothing_left: None, tmp_path: Path) -> None:
    """It stops waiting; the run goes on when a worker comes."""
    asked = [rig.world().run("approve") for _ in CODES]
    made: list[Command] = []
    for sign, run in zip(CODES, asked, strict=True):
        made.append(Command(sign, tmp_path, rig.state.api, ["approve", run, "--choice", "clean up only", "--who", "ana", "--wait"]))
    try:
        at_work(made, lambda c: "…" in c.said)
        for command in made:
            command.ends()
    finally:
        for command in made:
            command.process.kill()
            command.process.wait()
    states = [store.read_run(run).state for run in asked]
    assert [s is not None and s.is_scheduled() for s in states] == [True] * len(CODES)


@pytest.fixture
def changing(rig: Rig) -> Iterator[World]:
    """Something is being changed."""
    w = rig.world(takes_s=18)
    pid, _ = w.start_run("auto")
    took = rig.worlds / f"{w.name}.took"
    until(lambda: took.exists() and "begin" in took.read_text(), 60, "the change")
    yield w
    store.delete_variable(FREEZE)
    rig.wait(pid)


def test_freeze_that_waits(rig: Rig, changing: World, tmp_path: Path) -> None:
    """It stays frozen, and what is being changed goes on."""
    with each(rig, tmp_path, ["freeze", "a test", "--wait"]) as made:
        at_work(made, lambda c: bool(re.search("^waiting for step 1", c.said, re.M)))
        for command in made:
            command.ends()
    assert (store.get_variable(FREEZE) or {})["why"] == "a test"
