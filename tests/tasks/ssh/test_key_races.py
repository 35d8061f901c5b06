"""authorized_keys while its user exchanges it for links, others append to it or write it anew: root goes nowhere else, and
no line is lost."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.ssh.probes.ssh_add_key import add
from tasks.ssh.probes.ssh_authorized import keys_in
from tasks.ssh.probes.ssh_far_side import leads_to
from tasks.ssh.probes.ssh_fix_path import fix
from tests.support.racing import Steps, every_step, process, writing_at

UID = 12345
BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAINewNewNewNewNewNewNewNewNewNewNewNewNewNewNewN"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOldO op"
LINE = f"ssh-ed25519 {BLOB} added-by-gpu-runbooks"


class Home:
    """A user's home, and a folder of root's beside it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.roots, self.folder = folder / "home", folder / "of-root", folder
        self.ssh = self.path / ".ssh"
        self.keys = self.ssh / "authorized_keys"

    def fresh(self, *, with_file: bool) -> dict[str, Any]:
        """A home as it is judged, and what is asked for it."""
        for path in (self.path, self.roots, self.folder / "away"):
            shutil.rmtree(path, ignore_errors=True)
        self.path.mkdir()
        self.roots.mkdir()
        if with_file:
            self.ssh.mkdir(0o700)
            self.keys.write_text(OTHER + "\n")
            os.chown(self.ssh, UID, UID)
            os.chown(self.keys, UID, UID)
        os.chown(self.path, UID, UID)
        return self.ask()

    def ask(self) -> dict[str, Any]:
        inode = self.keys.lstat().st_ino if self.keys.exists() else 0
        return {"path": str(self.keys), "inode": inode, "uid": UID, "gid": UID, "home": str(self.path), "line": LINE, "blob": BLOB,
                "keys": [k["fingerprint"] for k in keys_in(str(self.keys))]}  # fmt: skip

    def untouched(self) -> bool:
        return [p.name for p in self.roots.iterdir()] in ([], ["authorized_keys"]) and all(
            (p.read_text(), p.stat().st_uid) == (OTHER + "\n", 0) for p in self.roots.iterdir()
        )


@pytest.fixture
def home(folder: Path) -> Home:
    return Home(folder)


@pytest.mark.parametrize("with_file", [True, False])
def test_a_linked_folder_is_not_followed(home: Home, with_file: bool) -> None:
    """The key file would lie in a folder of root's."""
    home.fresh(with_file=False)
    home.ssh.symlink_to(home.roots)
    if with_file:
        (home.roots / "authorized_keys").write_text(OTHER + "\n")
    got = add(home.ask())
    assert ".ssh is a link or no folder" in got["refused"]
    assert home.untouched()


def test_where_a_linked_key_file_leads_is_read(home: Home) -> None:
    """Links on the way to the home are the machine's own; those below it are somebody's."""
    home.fresh(with_file=True)
    assert leads_to(str(home.keys), str(home.path)) == ""
    way = home.folder / "way"
    way.symlink_to(home.folder)
    assert leads_to(str(way / "home" / ".ssh" / "authorized_keys"), str(way / "home")) == ""
    shutil.rmtree(home.ssh)
    home.ssh.symlink_to(home.roots)
    assert leads_to(str(home.keys), str(home.path)) == str(home.roots / "authorized_keys")


def test_what_is_made_is_the_users(home: Home) -> None:
    got = add(home.fresh(with_file=False))
    assert (got["path"], got["made"], home.keys.read_text()) == (str(home.keys), [".ssh"], LINE + "\n")
    assert [(p.stat().st_uid, p.stat().st_gid, p.stat().st_mode & 0o7777) for p in (home.ssh, home.keys)] == [
        (UID, UID, 0o700),
        (UID, UID, 0o600),
    ]
    assert (os.geteuid(), os.getegid()) == (0, 0)
    assert "already" in add(home.ask())["refused"]


def test_a_file_that_root_gave_the_user(home: Home) -> None:
    """It may be appended to; a second name of one of root's files may not, and another user's neither."""
    home.fresh(with_file=True)
    os.chown(home.keys, 0, 0)
    assert add(home.ask())["bytes"] == len(OTHER) + len(LINE) + 2
    home.keys.unlink()
    (home.roots / "authorized_keys").write_text(OTHER + "\n")
    os.link(home.roots / "authorized_keys", home.keys)
    assert "one name" in add(home.ask())["refused"]
    assert home.untouched()
    ask = home.fresh(with_file=True)
    os.chown(home.keys, 777, 777)
    assert "may not be written" in add(ask)["refused"]


def exchange_folder(home: Home) -> None:
    """~/.ssh becomes a link to a folder of root's."""
    if home.ssh.exists():
        home.ssh.rename(home.folder / "away")
    home.ssh.symlink_to(home.roots)


def exchange_file(home: Home) -> None:
    """The key file becomes a link to one of root's."""
    (home.roots / "authorized_keys").write_text(OTHER + "\n")
    home.ssh.mkdir(exist_ok=True)
    home.keys.unlink(missing_ok=True)
    home.keys.symlink_to(home.roots / "authorized_keys")


def write_anew(home: Home) -> None:
    """Another program rewrites the file, by renaming, with a line of its own."""
    home.ssh.mkdir(exist_ok=True)
    fresh = home.ssh / "fresh"
    fresh.write_text(OTHER + " anew\n")
    fresh.replace(home.keys)


@pytest.mark.parametrize("with_file", [True, False])
@pytest.mark.parametrize("other", [exchange_folder, exchange_file, write_anew])
def test_exchanged_before_every_step(home: Home, other: Callable[[Home], None], with_file: bool) -> None:
    """Whoever exchanges it: root's folder and file stay as they are, and "added" is said only where sshd will read it."""

    def run(at: int) -> Steps:
        ask = home.fresh(with_file=with_file)
        with writing_at(home.path, at, lambda: as_user(lambda: other(home)), on_fd=True) as steps:
            got = add(ask)
        assert home.untouched(), f"{at}: {got}"
        now = home.keys.read_text() if home.keys.exists() else ""
        assert (LINE in now) == ("path" in got) or other is not write_anew, f"{at}: {got}, {now}"
        if steps.wrote and other is write_anew:
            assert "anew" in now, f"{at}: {got}"
        return steps

    assert every_step(home.path, run) > 6


def as_user(do: Callable[[], None]) -> None:
    """Root is the writer here: it may do whatever the user could, whoever the probe acts as at that moment."""
    was = (os.geteuid(), os.getegid())
    os.seteuid(0)
    try:
        do()
    finally:
        os.setegid(was[1])
        os.seteuid(was[0])


APPENDS = """
import sys
for line in sys.stdin:
    for n in range(40):
        with open(sys.argv[1], "a") as f:
            f.write("# %s %d\\n" % (line.strip(), n))
    print("done", flush=True)
"""


@pytest.mark.parametrize("tries", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_others_append_all_the_time(home: Home, tries: int) -> None:
    """All their lines and ours stand there in the end, each in a line of its own."""
    with process(APPENDS, str(home.keys)) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        for n in range(tries):
            ask = home.fresh(with_file=True)
            p.stdin.write(f"{n}\n")
            p.stdin.flush()
            time.sleep(0.001 * (n % 7))
            got = add(ask)
            assert p.stdout.readline() == "done\n"
            lines = home.keys.read_text().split("\n")
            assert lines.count(LINE) == 1, got
            assert [x for x in lines if x.startswith("#")] == [f"# {n} {i}" for i in range(40)]


def test_an_unfinished_line_of_another(home: Home) -> None:
    """Between our look and our line somebody writes half a line: ours is written again, in a line of its own."""
    ask = home.fresh(with_file=True)

    def half() -> None:
        with home.keys.open("a") as f:
            f.write("ssh-ed25519 AAAA")

    for at in range(1, 60):
        ask = home.fresh(with_file=True)
        with writing_at(home.path, at, lambda: as_user(half), on_fd=True) as steps:
            got = add(ask)
        if steps.wrote and "path" in got:
            assert LINE in home.keys.read_text().split("\n"), at


def test_the_owner_of_a_second_name_is_not_changed(home: Home) -> None:
    """A file of root's under the path of a key file: its owner is not given to the user."""
    home.fresh(with_file=True)
    (home.roots / "shadow").write_text("root's")
    home.keys.unlink()
    os.link(home.roots / "shadow", home.keys)
    s = home.keys.lstat()
    got = fix({"path": str(home.keys), "device": s.st_dev, "inode": s.st_ino, "uid": s.st_uid, "gid": s.st_gid,
               "mode": s.st_mode & 0o7777, "to_uid": UID, "to_gid": UID, "to_mode": 0o600})  # fmt: skip
    assert "2 names" in got["refused"]
    assert (home.roots / "shadow").stat().st_uid == 0


@pytest.mark.parametrize("how", ["link", "file", "owner"])
def test_a_path_that_is_exchanged_before_every_step_of_its_repair(home: Home, how: str) -> None:
    """What came to its name keeps owner and mode, and it is told; an owner that somebody else sets is refused or given as it is."""
    shadow, owner = home.roots / "shadow", [0]

    def other() -> None:
        owner[0] = home.keys.stat().st_uid
        if how == "owner":
            os.chown(home.keys, 34567, 34567)
            return
        home.keys.rename(home.folder / "away")
        home.keys.symlink_to(shadow) if how == "link" else os.link(shadow, home.keys)

    def run(at: int) -> Steps:
        home.fresh(with_file=True)
        (home.folder / "away").unlink(missing_ok=True)
        shadow.write_text("root's")
        shadow.chmod(0o644)
        s = home.keys.lstat()
        ask = {"path": str(home.keys), "device": s.st_dev, "inode": s.st_ino, "uid": UID, "gid": UID, "mode": s.st_mode & 0o7777,
               "to_uid": 23456, "to_gid": 23456, "to_mode": 0o600}  # fmt: skip
        with writing_at(home.folder, at, other, on_fd=True) as steps:
            got = fix(ask)
        s = home.keys.stat()
        assert (shadow.stat().st_uid, shadow.stat().st_mode & 0o7777) == (0, 0o644), at
        if how == "owner" and "refused" not in got:
            assert got == {"uid": s.st_uid, "gid": s.st_gid, "mode": s.st_mode & 0o7777}, at
        elif steps.wrote and owner == [UID]:  # before the change, not after it
            assert got.keys() <= {"refused", "code"} or "exchanged in this very moment" in got["failed"], (at, got)
        return steps

    assert every_step(home.folder, run) > 4
