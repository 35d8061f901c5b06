"""A rehearsal that is broken off leaves nothing: a real terminal, server, sshd and stopped process."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from deployments.lab import broken_off
from tests.support.cli import CLI, Cli
from tests.support.waiting import until


def plain() -> None:
    """As at a terminal: tests that run in the background, or under nohup, pass ignored signals on."""
    for number in broken_off.ENDS:
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize(("key", "codes"), [("Ctrl-D", (0, 1)), ("Ctrl-C", (130,))])
def test_a_rehearsal_that_is_broken_off_leaves_nothing_waiting(cli: Cli, key: str, codes: tuple[int, ...]) -> None:
    leader, terminal = pty.openpty()
    lab = subprocess.Popen([*CLI, "lab", "zombie-gpu"], stdin=terminal, stdout=terminal, stderr=terminal, env=cli.env, preexec_fn=plain)
    os.close(terminal)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(leader, 1 << 16)
    screen = said.partition(b"3 of 4")[2]
    assert b"kill -CONT" in screen  # the question with its commands stands right above the prompt
    assert screen.count(b"\n") < 24
    deadline = time.monotonic() + 240
    with suppress(OSError):  # the terminal ends with its last process
        while lab.poll() is None and time.monotonic() < deadline:
            if key == "Ctrl-D":
                os.write(leader, b"\x04")
            else:
                lab.send_signal(signal.SIGINT)
            while select.select([leader], [], [], 90)[0] and (more := os.read(leader, 1 << 16)):  # pressed again after 90 s
                said += more
    os.close(leader)
    assert lab.wait(60) in codes, said.decode()[-2000:]
    assert b"Traceback" not in said
    left = cli.json("status")
    assert (left["waiting"], left["running"], left["health"]["open_runs"]) == ([], [], [])
    assert [v for v in left["wrong"] if v["target"] == "lab-node"] == [], "it is gone, whatever its run said"


def test_an_end_that_was_lost_where_it_struck_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken_off, "AGAIN_S", 0.2)
    undone: list[str] = []

    @broken_off.one_end()
    def rehearsal() -> None:
        try:
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
            time.sleep(20)
        finally:
            time.sleep(0.6)  # what takes away is not broken off by it
            undone.append("all")

    with pytest.raises(KeyboardInterrupt):
        rehearsal()
    assert undone == ["all"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


IN_BETWEEN = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
ENDS = {
    "its terminal is closed at the question": (["setsid", "--ctty", *CLI], b"[y/N]"),
    "SIGTERM at the look": (CLI, b"1 of 4"),
    "its parent is killed at the look": ([sys.executable, "-c", IN_BETWEEN, *CLI], b"1 of 4"),
}
"""How it is started, and what it has said when it ends."""


@pytest.mark.parametrize("how", ENDS)
def test_a_rehearsal_that_loses_its_terminal_leaves_nothing(cli: Cli, tmp_path: Path, how: str) -> None:
    """Its stopped trainer, its server, its folder and its question are gone, whatever ended it."""
    argv, at = ENDS[how]
    leader, terminal = pty.openpty()
    lab = subprocess.Popen(
        [*argv, "lab", "zombie-gpu"], stdin=terminal, stdout=terminal, stderr=terminal,
        env=cli.env | {"TMPDIR": str(tmp_path)}, preexec_fn=plain,
    )
    os.close(terminal)
    said = b""
    while at not in said:
        said += os.read(leader, 1 << 16)
    assert len(of_folder(tmp_path)) >= 2, "a trainer and an sshd"
    if at == b"[y/N]":
        os.close(leader)
    else:
        lab.send_signal(signal.SIGTERM if argv is CLI else signal.SIGKILL)
    until(lambda: not list(tmp_path.glob("gpu-runbooks-lab-*")), 150, "the end of its folder")
    until(lambda: not of_folder(tmp_path), 30, "the end of what it started")
    lab.wait(30)
    if at != b"[y/N]":
        os.close(leader)
    left = cli.json("status")
    assert (left["waiting"], left["running"], left["health"]["open_runs"]) == ([], [], [])
    assert [v for v in left["wrong"] if v["target"] == "lab-node"] == [], "it is gone, whatever its run said"


@pytest.mark.parametrize("next_", ["lab", "down"])
def test_what_a_killed_rehearsal_leaves_is_taken_away_by_the_next_command(cli: Cli, tmp_path: Path, next_: str) -> None:
    """Its stopped trainer, its server, its folder and its question."""
    leader, terminal = pty.openpty()
    env = cli.env | {"TMPDIR": str(tmp_path)}
    lab = subprocess.Popen([*CLI, "lab", "zombie-gpu"], stdin=terminal, stdout=terminal, stderr=terminal, env=env, preexec_fn=plain)
    os.close(terminal)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(leader, 1 << 16)
    lab.kill()
    lab.wait(30)
    os.close(leader)
    assert len(of_folder(tmp_path)) >= 2, "a trainer and an sshd"
    assert len(cli.json("status")["waiting"]) == 1
    done = cli("lab", "ssh-auth-failure") if next_ == "lab" else cli("down")
    assert "removing what a killed rehearsal" in done.stderr
    assert done.returncode == 0, done.stderr
    assert (of_folder(tmp_path), list(tmp_path.glob("gpu-runbooks-lab-*")), list((cli.home / "lab").iterdir())) == ([], [], [])
    cli("up")
    left = cli.json("status")
    assert (left["waiting"], left["running"], left["health"]["open_runs"]) == ([], [], [])
    assert [v for v in left["wrong"] if v["target"] == "lab-node"] == [], "it is gone, whatever its run said"


def of_folder(folder: Path) -> list[str]:
    """Command lines of processes that name that folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(place.read_bytes().decode("utf-8", "replace"))
    return [line for line in found if str(folder) in line]
