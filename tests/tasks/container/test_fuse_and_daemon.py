"""A real FUSE mount killed under a container, and a real daemon that goes down: judged and repaired."""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from runbooks.core.verdict import State
from tasks.context import ActionRefused
from tests.support import fuse_mount
from tests.support.docker_engine import Engine, docker_engine
from tests.support.waiting import until
from tests.tasks.container.world import World, confirmed


def test_a_dead_mount_under_a_dead_container_both_named_and_repaired_in_order(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (pid, path, command):
        try:
            engine.create("fused", "sleep", "1000", options=("-v", f"{path}:/data"))
            mounts = ({"path": str(path), "where": "host", "mount": command},)
            world = World(engine, "fused", mounts=mounts, probe=("ls", "/data"))
            assert world.judge().state is State.HEALTHY
            os.kill(pid, signal.SIGKILL)
            engine.run("kill", "fused")
            engine.wait_status("fused", "exited")
            found = world.judge()
            assert confirmed(found) == ["stale-fuse", "killed-through-engine"]
            assert any("mkdir" in line for line in found.must_not)
            assert [s.kind for s in found.plans[0].steps] == ["remount-fuse", "recreate-container"]
            world.act(found.plans[0])
            assert engine.run("exec", "fused", "cat", "/data/weights") == "w"
            with pytest.raises(ActionRefused, match="alive"):
                world.act(found.plans[0])
        finally:
            engine.run("rm", "-f", "fused", check=False)


def test_a_dead_mount_under_a_running_container_replaces_it(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (pid, path, command):
        try:
            engine.create("bound", "sleep", "infinity", options=("-v", f"{path}:/data"))
            mounts = ({"path": str(path), "where": "host", "mount": command},)
            world = World(engine, "bound", mounts=mounts)
            os.kill(pid, signal.SIGKILL)
            found = world.judge()
            assert "stale-fuse" in confirmed(found)
            assert found.plans[0].name == "replace the running container"
            world.act(found.plans[0])
            assert engine.run("exec", "bound", "cat", "/data/weights") == "w"
        finally:
            engine.run("rm", "-f", "bound", check=False)


def test_a_hung_mount_is_not_called_dead(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (pid, path, _):
        try:
            engine.create("hung", "sleep", "infinity", options=("-v", f"{path}:/data"))
            os.kill(pid, signal.SIGSTOP)
            found = World(engine, "hung").judge()
            assert "fuse-hung" in [c.slug for c in found.causes]
            assert found.plans == ()
        finally:
            os.kill(pid, signal.SIGCONT)
            engine.run("rm", "-f", "hung", check=False)


def test_the_daemon_goes_down_is_started_and_its_victims_are_one_event() -> None:
    with docker_engine() as engine:
        engine.create("first", "sleep", "1000")
        engine.create("second", "sleep", "1000")
        world = World(engine, "first", daemon_start=(str(engine.start_script()),))
        engine.stop_daemon()
        found = world.judge()
        assert confirmed(found) == ["daemon-down"]
        assert [s.kind for s in found.plans[0].steps] == ["start-engine"]
        assert any("docker daemon" in line.lower() or "cannot connect" in line.lower() for line in found.unknowns)
        world.act(found.plans[0])
        with pytest.raises(ActionRefused, match="runs"):
            world.act(found.plans[0])
        after = world.judge()
        assert confirmed(after) == ["daemon-restarted"]
        assert any("second" in line for c in after.causes for line in c.evidence)
        assert [p.name for p in after.plans] == ["recreate"]


@pytest.mark.parametrize("apart_s", [0.0, 0.1, 0.5])
def test_of_two_starts_of_a_daemon_one_lives(apart_s: float) -> None:
    """Somebody's own start, at any moment beside ours."""
    with docker_engine() as engine:
        engine.create("first", "sleep", "1000")
        script = str(engine.start_script())
        world = World(engine, "first", daemon_start=(script,))
        engine.stop_daemon()
        (plan,) = world.judge().plans
        theirs = threading.Timer(apart_s, lambda: subprocess.run([script], check=False, capture_output=True, timeout=60))
        theirs.start()
        with suppress(ActionRefused):  # they were quicker: it runs
            world.act(plan)
        theirs.join(60)

        def daemons() -> list[int]:
            return [int(p.name) for p in Path("/proc").glob("[0-9]*") if f"--pidfile {engine.pidfile} " in _argv(p)]

        until(lambda: daemons() == [engine.pid()], 60, "one daemon")
        assert engine.inspect("first")["Name"] == "/first"


def _argv(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_a_stopped_daemon_is_stuck_not_down() -> None:
    with docker_engine() as engine:
        engine.create("frozen", "sleep", "1000")
        os.kill(engine.pid(), signal.SIGSTOP)
        try:
            found = World(engine, "frozen", daemon_start=("false",)).judge()
        finally:
            os.kill(engine.pid(), signal.SIGCONT)
        assert confirmed(found) == ["daemon-stuck"]
        assert found.plans == ()
