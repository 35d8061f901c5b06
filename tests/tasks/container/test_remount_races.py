"""Only the very mount that was found dead is unmounted: living ones that deny root, answer badly or came meanwhile stay."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.plan import Step
from tasks.container.act_mounts import remount_fuse
from tasks.container.probes import fuse_table, remount
from tasks.container.probes.fuse_mounts import main as read
from tasks.context import ActionRefused
from tasks.transport.base import TransportError
from tests.support import fuse_mount
from tests.support.docker_engine import Engine
from tests.support.racing import process
from tests.tasks.container.world import World


class Mount:
    """A folder, a mount point, and how to mount the one at the other."""

    def __init__(self, folder: Path) -> None:
        self.script = fuse_mount.write_program(folder)
        self.root, self.path = folder / "bucket", folder / "mnt"
        self.root.mkdir()
        self.path.mkdir()
        (self.root / "weights").write_text("w")
        self.argv = [str(self.script), str(self.root), str(self.path)]
        self.ask: dict[str, Any] = {"path": str(self.path), "mount": self.argv}

    def mount(self) -> int:
        return fuse_mount.mount(self.script, self.root, self.path)

    def dead(self) -> None:
        """A mount whose process is gone."""
        self.mount()
        for pid in fuse_mount.servers(self.path):  # of an earlier mount there may be one that is just ending
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(self.state, "dead")

    def state(self) -> str:
        rows = fuse_table.table("/proc/self/mounts")
        user = fuse_table.at(str(self.path), rows)
        return fuse_table.try_path(str(self.path), user, 2.0)[0] if user else "not mounted"

    def count(self) -> int:
        return sum(point == str(self.path) for _, point, _, _ in fuse_table.table("/proc/self/mounts") or [])


def wait_for(look: Any, wanted: str) -> None:
    for _ in range(200):
        if look() == wanted:
            return
        subprocess.run(["sleep", "0.02"], check=True)
    raise AssertionError(f"it is {look()}, not {wanted}")


@pytest.fixture
def it(folder: Path) -> Iterator[Mount]:
    found = Mount(folder)
    yield found
    fuse_mount.unmount(found.path)


def test_a_living_mount_that_denies_root_is_looked_at_as_its_user(it: Mount) -> None:
    """Root gets EACCES of a living and of a dead one; the mount's own user is told which it is."""
    with fuse_mount.of_a_user(str(it.root), str(it.path)) as server:
        assert server.poll() is None
        with pytest.raises(PermissionError):
            it.path.iterdir().__next__()
        assert it.state() == "alive"
        assert remount.main(it.ask) == {"refused": f"{it.path} is alive, not dead", "code": "in-use"}
        assert it.count() == 1
    with pytest.raises(PermissionError):
        it.path.iterdir().__next__()
    assert it.state() == "dead"
    assert remount.main(it.ask)["said"][-1] == f"{it.path} is mounted and can be listed"
    assert (it.path / "weights").read_text() == "w"


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.EIO])
def test_a_living_process_that_answers_as_a_dead_one_would(it: Mount, code: int) -> None:
    """Its storage is away: clients of cluster file systems hand that on to whoever asks."""
    with fuse_mount.of_a_user(str(it.root), str(it.path), errno=code, user=0) as server:
        state = next(m for m in read({"container": 0, "wait_s": 2.0})["mounts"] if m["path"] == str(it.path))
        assert (state["state"], server.poll()) == ("hung", None)
        assert "hung, not dead" in remount.main(it.ask)["refused"]
        assert it.count() == 1
        assert server.poll() is None


@pytest.mark.parametrize("unmounts", [True, False])
def test_mounted_anew_between_the_look_and_the_change(
    it: Mount, monkeypatch: pytest.MonkeyPatch, unmounts: bool
) -> None:
    """Somebody else is faster: theirs stays mounted, its process lives, and nothing is mounted over it."""
    it.dead()
    theirs: list[int] = []
    real = remount.detach

    def late(fd: int, pid: int) -> str:
        if not theirs:
            subprocess.run(["umount", "-l", str(it.path)], check=unmounts)
            theirs.append(it.mount())
        return real(fd, pid)

    monkeypatch.setattr(remount, "detach", late)
    got = remount.main(it.ask)
    assert got == {"refused": f"{it.path} is alive, not dead", "code": "in-use"}
    assert (it.count(), fuse_mount.server(it.path)) == (1, theirs[0])
    assert (it.path / "weights").read_text() == "w"


OTHER = """
import subprocess, sys, time
path = sys.argv[3]
for line in sys.stdin:
    time.sleep(float(line))
    subprocess.run(["umount", "-l", path], capture_output=True)
    print(subprocess.run(sys.argv[1:4], capture_output=True).returncode, flush=True)
"""


@pytest.mark.parametrize("tries", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_somebody_who_remounts_at_the_same_time(it: Mount, tries: int) -> None:
    """Each try at another moment: in the end it can always be read."""
    with process(OTHER, *it.argv) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        for n in range(tries):
            it.dead()
            p.stdin.write(f"{0.3 * n / tries}\n")
            p.stdin.flush()
            got = remount.main(it.ask)
            assert p.stdout.readline()
            assert (it.path / "weights").read_text() == "w", got
            fuse_mount.unmount(it.path)


def test_inside_a_container(engine: Engine, folder: Path) -> None:
    """A living mount that only the container has and that denies its root; then the same one dead."""
    engine.create("inner", "sleep", "1000", options=("--tmpfs", "/mnt", "--cap-add=SYS_ADMIN"))
    engine.run("exec", "inner", "mkdir", "/mnt/data", "/mnt/bucket")
    pid = int(engine.inspect("inner")["State"]["Pid"])
    args = {"path": "/mnt/data", "where": "container", "type": "fuse", "engine": list(engine.argv), "id": engine.inspect("inner")["Id"],
            "mount": ["mount", "-t", "tmpfs", "none", "/mnt/data"]}  # fmt: skip
    step = Step(kind="remount-fuse", owner="n", args=args, commands=(), effect="")
    world = World(engine, "inner")
    try:
        with fuse_mount.of_a_user("/mnt/bucket", "/mnt/data", pid=pid) as server:
            listed = subprocess.run(
                [*engine.argv, "exec", "inner", "ls", "/mnt/data"], capture_output=True, check=False
            )
            assert b"Permission denied" in listed.stderr
            with pytest.raises(ActionRefused, match="alive, not dead"):
                remount_fuse(step, world.context)
            assert " /mnt/data fuse" in engine.run("exec", "inner", "cat", "/proc/mounts")
            assert server.poll() is None
        with pytest.raises(TransportError, match="umount -l /mnt/data; mount: exit 0"):
            remount_fuse(step, world.context)  # the command of this test mounts a tmpfs, which is no FUSE mount
        assert " /mnt/data tmpfs" in engine.run("exec", "inner", "cat", "/proc/mounts")
    finally:
        engine.run("rm", "-f", "inner", check=False)


def test_hung_is_not_dead(it: Mount) -> None:
    pid = it.mount()
    os.kill(pid, signal.SIGSTOP)
    try:
        assert "hung, not dead" in remount.main(it.ask)["refused"]
    finally:
        os.kill(pid, signal.SIGCONT)
