"""`logs --follow` neither loses nor repeats a line: growth, rotation, emptied files, lines without an end; and it ends cleanly."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runbooks.parsers.logs.event import LoggedEvent
from runbooks.parsers.logs.shapes import ORCHESTRATOR
from tasks.clients.logs.bytes import HostBytes, LocalBytes
from tasks.clients.logs.source import LogWindow
from tasks.clients.logs.text import TextLog
from tasks.transport.local import LocalHost
from tests.support.cli import CLI

FRAME = "2026-03-02 03:09:00,000 - control_loop - INFO - "
FOLLOW = LogWindow(follow=True)


def said(events: list[LoggedEvent]) -> list[str]:
    """Messages."""
    return [e.message for e in events]


@pytest.fixture(params=["local", "by commands"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> TextLog:
    """A log with one line, each way to read it."""
    path = tmp_path / "o.log"
    path.write_text(f"{FRAME}first\n{FRAME}half")
    bytes = LocalBytes(path) if request.param == "local" else HostBytes(LocalHost(), str(path), str(path))
    found = TextLog("o", bytes, ORCHESTRATOR)
    assert said(found.read(FOLLOW)[0]) == ["first"], "a line that has not ended yet comes later"
    return found


def add(path: Path, *messages: str) -> None:
    """Whole lines at the end."""
    with path.open("a") as f:
        f.write("".join(f"{FRAME}{m}\n" for m in messages))


def test_growth_and_lines_in_parts(log: TextLog, tmp_path: Path) -> None:
    path = tmp_path / "o.log"
    assert log.poll() == ([], ())
    with path.open("ab") as f:
        f.write("-and-half é".encode()[:-1])
    assert log.poll() == ([], ())
    with path.open("ab") as f:
        f.write(b"\xa9\n")
    add(path, "next")
    assert said(log.poll()[0]) == ["half-and-half é", "next"]
    assert log.poll() == ([], ())


def test_a_rotation_loses_nothing_here(tmp_path: Path) -> None:
    path = tmp_path / "o.log"
    path.write_text(f"{FRAME}first\n")
    log = TextLog("o", LocalBytes(path), ORCHESTRATOR)
    log.read(FOLLOW)
    add(path, "last of the old")
    path.rename(tmp_path / "o.log.1")
    events, notes = log.poll()
    assert (said(events), len(notes)) == (["last of the old"], 1), "for now nothing has the name"
    with (tmp_path / "o.log.1").open("a") as f:
        f.write(f"{FRAME}written late without an end")
    add(path, "first of the new")
    events, notes = log.poll()
    assert (said(events), notes) == (["written late without an end", "first of the new"], ())
    add(path, "on")
    assert said(log.poll()[0]) == ["on"]


def test_a_file_that_was_replaced_more_than_once_is_told(tmp_path: Path) -> None:
    path = tmp_path / "o.log"
    path.write_text(f"{FRAME}first\n")
    log = TextLog("o", LocalBytes(path), ORCHESTRATOR)
    log.read(FOLLOW)
    for n in (2, 1):
        time.sleep(0.02)
        path.rename(tmp_path / f"o.log.{n}")
        add(path, f"of {n}")
    events, notes = log.poll()
    assert said(events) == ["of 1"]
    assert "lines are missing" in notes[0]


@pytest.mark.parametrize("refill", [1, 50])
def test_a_file_that_was_emptied_is_read_from_its_begin(log: TextLog, tmp_path: Path, refill: int) -> None:
    """With `refill` 50 it is longer than before when it is looked at again."""
    path = tmp_path / "o.log"
    path.write_text("".join(f"{FRAME}new {n}\n" for n in range(refill)))
    events, notes = log.poll()
    assert said(events) == [f"new {n}" for n in range(refill)]
    assert "emptied" in notes[0]
    assert log.poll() == ([], ())


def test_two_hundred_random_histories(tmp_path: Path) -> None:
    dice = random.Random(5)
    for history in range(200):
        path = tmp_path / f"{history}.log"
        path.touch()
        log = TextLog("o", LocalBytes(path), ORCHESTRATOR)
        got, wrote, rest = said(log.read(FOLLOW)[0]), [], ""
        for step in range(12):
            for n in range(dice.randrange(4)):
                wrote.append(f"{step}.{n}")
                rest += f"{FRAME}{wrote[-1]}\n"
            cut = dice.randrange(len(rest) + 1)
            with path.open("a") as f:
                f.write(rest[:cut])
            rest = rest[cut:]
            looked = dice.random() < 0.6
            if looked:
                got += said(log.poll()[0])
            if dice.random() < 0.2:
                with path.open("a") as f:
                    f.write(rest)
                rest = ""
                path.rename(tmp_path / f"{history}.log.1")
                path.touch()
                events, notes = log.poll()
                got += said(events)
                assert notes == ()
        with path.open("a") as f:
            f.write(rest)
        got += said(log.poll()[0])
        assert got == wrote, history


def start(tmp_path: Path, *args: str) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    env = {**os.environ, "GPU_RUNBOOKS_HOME": str(tmp_path / "home")}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in a shell's background would pass on that it is ignored
    try:
        return subprocess.Popen([*CLI, "logs", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_command_follows_and_ends_on_an_interrupt(tmp_path: Path) -> None:
    path = tmp_path / "o.log"
    add(path, "first")
    with start(tmp_path, str(path), "--follow") as command:
        assert command.stdout is not None
        assert command.stderr is not None
        lines = iter(command.stdout.readline, "")
        assert next(line for line in lines if "first" in line)
        add(path, "postgresql://u:hunter2hunter2@db/x", "second")
        assert "<secret:" in next(line for line in lines if "postgresql" in line)
        assert next(lines).endswith("second\n")
        command.send_signal(signal.SIGINT)
        assert command.wait(20) == 130
        assert command.stderr.read() == "interrupted\n"


@pytest.mark.parametrize("goes_on", [True, False])
def test_the_command_ends_when_nobody_reads_any_more(tmp_path: Path, goes_on: bool) -> None:
    path = tmp_path / "o.log"
    add(path, "first")
    with start(tmp_path, str(path), "--follow", "--json") as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.readline()
        command.stdout.close()
        if goes_on:
            add(path, "second")
        assert command.wait(20) == 141
        assert command.stderr.read() == ""


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "o.log"
    add(path, *("x" * 100 for _ in range(1000)))
    with Path("/dev/full").open("w") as full:
        env = {**os.environ, "GPU_RUNBOOKS_HOME": str(tmp_path / "home")}
        done = subprocess.run([*CLI, "logs", str(path)], stdout=full, stderr=subprocess.PIPE, text=True, env=env, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr
