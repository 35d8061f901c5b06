"""known_hosts and a private key of this machine while others append to them and write them anew: nothing of theirs is lost."""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runbooks.core.fleet import Fleet, KeySource, Node
from runbooks.core.plan import Step
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context
from tasks.ssh import act_files as own_files
from tasks.ssh.act_files import comment_out, exchange
from tasks.ssh.act_keys import restrict_key_mode
from tasks.transport.local import LocalHost
from tests.support.racing import Steps, every_step, process, writing_at

LINES = ["# a head\n", "a.example ssh-ed25519 AAAA\n", "b.example ssh-ed25519 BBBB\n", "last.example ssh-ed25519 CCCC\n"]
JUDGED = "b.example ssh-ed25519 BBBB"
GONE = [*LINES[:2], "#" + JUDGED[1:] + "\n", LINES[3]]
THEIRS = "new.example ssh-ed25519 DDDD\n"


def append(path: Path) -> None:
    with path.open("a") as f:
        f.write(THEIRS)


def rename_over(path: Path) -> None:
    """As ssh-keygen -R does."""
    text = path.read_text()
    fresh = path.with_name("fresh")
    fresh.write_text(text + THEIRS)
    fresh.replace(path)


def write_over(path: Path) -> None:
    """As programs do that know no better: emptied, then written."""
    path.write_text("".join(LINES[1:]) + THEIRS)


def judged(line: str) -> bool:
    return line == JUDGED


@pytest.mark.parametrize("other", [append, rename_over, write_over])
@pytest.mark.parametrize("linked", [False, True])
def test_known_hosts_written_before_every_step(tmp_path: Path, other: Callable[[Path], None], linked: bool) -> None:
    """The writer waits for us where it would come between look and change; a line is a comment, or all is as they left it."""
    folder = tmp_path / "ssh"
    folder.mkdir()
    real, path = folder / "kept" if linked else folder / "known_hosts", folder / "known_hosts"
    ends = set()

    def run(at: int) -> Steps:
        for old in folder.iterdir():
            old.unlink()
        real.write_text("".join(LINES))
        if linked:
            path.symlink_to(real)
        writer = threading.Thread(target=other, args=(real,))

        def begin() -> None:
            writer.start()
            writer.join(0.03)

        with writing_at(folder, at, begin, on_fd=True) as steps:
            try:
                aside = comment_out(path, 3, judged)
                assert aside.read_text() != "", "a copy of what was"
                end = "done"
            except ActionRefused:
                end = "refused"
        if not steps.wrote:
            assert real.read_text() == "".join(GONE)
            return steps
        writer.join(10)
        now = real.read_text()
        assert THEIRS in now, f"{at}: {end}, {now}"
        ours = "".join(GONE if end == "done" else LINES) + THEIRS
        overwritten = "".join(LINES[1:]) + THEIRS
        assert now in (ours, "".join(LINES) + THEIRS, overwritten), f"{at}: {end}, {now}"
        assert end == "done" or not list(folder.glob("*.before-*")), "a refusal leaves nothing"
        ends.add((end, now == ours))
        return steps

    assert every_step(folder, run) >= 5
    assert ("done", True) in ends or other is not append


APPENDS = """
import sys, time
for line in sys.stdin:
    for n in range(30):
        with open(sys.argv[1], "a+") as f:
            f.write("%s.example ssh-ed25519 EEEE%d\\n" % (line.strip(), n))
        time.sleep(0.0005)
    print("done", flush=True)
"""


@pytest.mark.parametrize("tries", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_ssh_learns_hosts_all_the_time(tmp_path: Path, tries: int) -> None:
    path = tmp_path / "known_hosts"
    with process(APPENDS, str(path)) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        for n in range(tries):
            path.write_text("".join(LINES))
            p.stdin.write(f"h{n}\n")
            p.stdin.flush()
            time.sleep(0.001 * (n % 20))
            comment_out(path, 3, judged)
            assert p.stdout.readline() == "done\n"
            learned = [f"h{n}.example ssh-ed25519 EEEE{i}\n" for i in range(30)]
            assert path.read_text() == "".join([*GONE, *learned])


def test_a_file_system_without_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.fcntl

    def none(fd: int, what: int, arg: int = 0) -> int:
        if what == fcntl.F_SETLEASE:
            raise OSError(errno.EINVAL, "no leases here")
        return real(fd, what, arg)

    path = tmp_path / "known_hosts"
    path.write_text("".join(LINES))
    monkeypatch.setattr("tasks.ssh.act_files.fcntl.fcntl", none)
    comment_out(path, 3, judged)
    assert path.read_text() == "".join(GONE)


def test_held_open_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("".join(LINES))
    monkeypatch.setattr(own_files, "BUSY_S", 0.1)
    with path.open("a"), pytest.raises(ActionRefused, match="open all the time"):
        comment_out(path, 3, judged)
    assert [p.name for p in tmp_path.iterdir()] == ["known_hosts"]
    assert path.read_text() == "".join(LINES)


@pytest.mark.parametrize("other", [rename_over, write_over])
def test_a_key_exchanged_before_every_step(tmp_path: Path, other: Callable[[Path], None]) -> None:
    """The key that somebody puts there at the same time stays there."""
    folder = tmp_path / "ssh"
    folder.mkdir()
    path = folder / "key"

    def run(at: int) -> Steps:
        for old in folder.iterdir():
            old.unlink()
        path.write_text("".join(LINES))
        seen = path.lstat()

        def came_out(out: Path) -> None:
            if out.lstat().st_ino != seen.st_ino or out.read_text() != "".join(LINES):
                raise ActionRefused(RefusalCode.TARGET_CHANGED, "another one")

        with writing_at(folder, at, lambda: other(path), on_fd=True) as steps:
            try:
                aside = exchange(path, "clean\n", came_out)
                assert aside.read_text() == "".join(LINES)
            except ActionRefused:
                assert not list(folder.glob(".key*")), "a refusal leaves nothing"
        assert (THEIRS in path.read_text()) is steps.wrote, at
        assert steps.wrote or (path.read_text(), path.stat().st_mode & 0o777) == ("clean\n", 0o600)
        return steps

    assert every_step(folder, run) >= 5


def exchange_names(theirs: Path, path: Path) -> None:
    theirs.replace(path)


def test_the_mode_of_a_key_that_is_exchanged_before_every_step(tmp_path: Path) -> None:
    """A key that somebody puts there meanwhile keeps the mode that they gave it, and it is told."""
    folder = tmp_path / "ssh"
    folder.mkdir()
    path, theirs = folder / "key", folder / "theirs"
    text = "".join(LINES)

    def run(at: int) -> Steps:
        path.write_text(text)
        path.chmod(0o644)
        seen = path.lstat()
        context = Context(Fleet(nodes=(Node(name="n", host="h", key=KeySource(file=str(path))),)), "n", LocalHost)  # type: ignore[arg-type]
        identity = f"{seen.st_ino}:{len(text)}:{context.redactor.hash(text)}"
        step = Step(kind="restrict-key-mode", owner="", args={"path": str(path), "identity": identity, "mode": 0o644},
                    commands=(), effect="")  # fmt: skip
        theirs.write_text(text)
        theirs.chmod(0o640)
        with writing_at(folder, at, lambda: exchange_names(theirs, path), on_fd=True) as steps:
            try:
                restrict_key_mode(step, context)
                refused = False
            except ActionRefused:
                refused = True
        assert refused is steps.wrote, at
        assert path.stat().st_mode & 0o777 == (0o640 if steps.wrote else 0o600), at
        return steps

    assert every_step(folder, run) > 3


def test_the_signal_of_a_lease_ends_nobody(tmp_path: Path) -> None:
    """The kernel tells the holder by a signal that somebody waits; its default would be the end of the process."""
    path = tmp_path / "file"
    path.write_text("x")
    opener = threading.Thread(target=lambda: path.read_text())
    with own_files.opened(path, os.O_RDWR) as fd, own_files.alone(fd):
        opener.start()
        opener.join(0.05)
        assert opener.is_alive(), "it waits"
    opener.join(10)
    assert not opener.is_alive()
