"""The commands of a report, pasted into a shell, repair containers of a real engine."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runbooks.container.backoff import kept_name
from runbooks.core.plan import Plan
from runbooks.core.verdict import State
from tests.support import fuse_mount
from tests.support.docker_engine import Engine, docker_engine
from tests.support.need import need_program
from tests.support.printed import by_hand
from tests.support.waiting import until
from tests.tasks.container.world import World, confirmed


@pytest.fixture(autouse=True)
def _programs() -> None:
    need_program("jq", "jq")
    need_program("curl", "curl")


def typed(plan: Plan) -> None:
    done = by_hand(plan.steps)
    assert done.returncode == 0, (plan.steps, done.stderr)


def test_a_dead_container_is_made_anew(engine: Engine) -> None:
    """Environment, volumes (an anonymous one with its content) and restart policy as they were; the old one is kept and rests."""
    options = ("-e", "PLAIN=a b", "-v", "named:/named", "-v", "/nameless", "--restart", "always", "--shm-size", "96m")
    ident = engine.create("anew", "sleep", "1000", options=options)
    engine.run("exec", "anew", "sh", "-c", "echo w > /nameless/weights")
    before = engine.inspect("anew")
    engine.run("kill", "anew")
    engine.wait_status("anew", "exited")
    world = World(engine, "anew", setup=(("sh", "-c", "echo s > /set"),))
    found = world.judge()
    assert [s.kind for s in found.plans[0].steps] == ["recreate-container"]
    typed(found.plans[0])
    after = engine.wait_status("anew", "running")
    assert after["Id"] != ident
    assert engine.run("exec", "anew", "cat", "/nameless/weights", "/set").split() == ["w", "s"]
    assert after["HostConfig"]["RestartPolicy"] == before["HostConfig"]["RestartPolicy"]
    assert after["HostConfig"]["ShmSize"] == 96 << 20
    assert sorted(after["Config"]["Env"]) == sorted(before["Config"]["Env"])
    kept = engine.inspect(kept_name("anew", ident))
    assert (kept["Id"], kept["HostConfig"]["RestartPolicy"]["Name"], kept["State"]["Status"]) == (ident, "no", "exited")
    time.sleep(0.6)
    assert "killed-through-engine" not in confirmed(world.judge())


def test_a_sleep_that_ended_becomes_one_that_does_not(engine: Engine) -> None:
    engine.create("endless", "sleep", "1")
    engine.wait_status("endless", "exited")
    world = World(engine, "endless", {"life_slack_s": 1})
    found = world.judge()
    assert confirmed(found) == ["keep-alive-ended"]
    typed(found.plans[0])
    assert engine.wait_status("endless", "running")["Config"]["Cmd"] == ["sleep", "infinity"]


def test_an_application_is_started_again(engine: Engine) -> None:
    engine.create("app2", "sleep", "infinity")
    world = World(engine, "app2", match="sleep 79", start=("sleep", "79"))
    found = world.judge()
    assert confirmed(found) == ["application-dead"]
    for argv in (("sleep", "790"), ("sh", "-c", "trap '' TERM; sleep 791 & wait"), ("sleep", "1234")):
        engine.run("exec", "-d", "app2", *argv)
    typed(found.plans[0])
    until(lambda: world.judge().state is State.HEALTHY, 20, "a healthy application")
    runs = [line.split(None, 1)[1] for line in engine.run("top", "app2", "-eo", "pid,args").splitlines()[1:]]
    assert sorted(runs) == ["sleep 1234", "sleep 79", "sleep infinity"], "what was left of it is gone, and nothing else"


def test_a_kept_container_is_removed(engine: Engine) -> None:
    engine.create("young", "sleep", "1000")
    old = engine.run("create", "--network=none", "bb:1", "true").strip()
    engine.run("start", old)
    engine.run("rename", old, kept_name("young", old))
    engine.wait_status(kept_name("young", old), "exited")
    time.sleep(1.1)
    world = World(engine, "young", {"keep_old_s": 1}, match="sleep")
    world.context.options["remove_kept"] = "yes"
    found = world.judge()
    assert confirmed(found) == ["kept-container"], found.headline
    typed(found.plans[0])
    assert old not in engine.run("ps", "-aq", "--no-trunc").split()
    assert "kept-container" not in confirmed(world.judge())


def test_a_dead_mount_is_mounted_again(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (pid, path, command):
        try:
            engine.create("fused2", "sleep", "infinity", options=("-v", f"{path}:/data"))
            mounts = ({"path": str(path), "where": "host", "mount": command},)
            world = World(engine, "fused2", mounts=mounts)
            os.kill(pid, signal.SIGKILL)
            engine.run("kill", "fused2")
            engine.wait_status("fused2", "exited")
            found = world.judge()
            assert [s.kind for s in found.plans[0].steps] == ["remount-fuse", "recreate-container"]
            typed(found.plans[0])
            assert engine.run("exec", "fused2", "cat", "/data/weights") == "w"
            assert "stale-fuse" not in confirmed(world.judge())
        finally:
            engine.run("rm", "-f", "fused2", check=False)


def test_an_engine_is_started() -> None:
    with docker_engine() as engine:
        engine.create("first", "sleep", "1000")
        world = World(engine, "first", daemon_start=(str(engine.start_script()),))
        engine.stop_daemon()
        found = world.judge()
        assert [s.kind for s in found.plans[0].steps] == ["start-engine"]
        typed(found.plans[0])
        until = time.monotonic() + 30
        while "daemon-down" in confirmed(world.judge()):
            assert time.monotonic() < until, "the engine does not answer"
            time.sleep(0.5)


def test_nameless_images_go() -> None:
    """An image without a name fills the engine's disk, and what writes there dies of it. A volume beside it stays."""
    with docker_engine(disk="64m") as engine:
        engine.run("volume", "create", "precious")
        fills = "until [ -e /go ]; do sleep 0.1; done; while sleep 0.2; do dd if=/dev/zero bs=4k count=32 >>/some || exit 1; done"
        engine.create("full", "sh", "-c", fills)
        filled = engine.folder / "filler"
        room = os.statvfs(engine.data)
        filled.write_bytes(b"x" * (room.f_bavail * room.f_frsize - (1 << 20)))
        subprocess.run(["tar", "-cf", "filler.tar", "filler"], cwd=engine.folder, check=True)
        nameless = engine.run("import", str(engine.folder / "filler.tar"))
        engine.run("exec", "full", "touch", "/go")
        engine.wait_status("full", "exited")
        found = World(engine, "full").judge()
        assert "disk-full" in confirmed(found), found
        (plan,) = [p for p in found.plans if p.steps[0].kind == "free-engine-space"][:1]
        typed(plan)
        assert nameless not in engine.run("images", "-aq", "--no-trunc").split()
        assert "precious" in engine.run("volume", "ls", "-q").split()
        assert engine.inspect("full")["State"]["Status"] == "running"
        assert "disk-full" not in confirmed(World(engine, "full").judge())


def test_an_old_loop_is_ended(engine: Engine, tmp_path: Path) -> None:
    script = tmp_path / "ray_retry.sh"
    docker = " ".join(engine.argv)
    script.write_text(f"#!/bin/sh\nwhile true; do\n  {docker} exec looped2 true >/dev/null 2>&1\n  sleep 0.5\ndone\n")
    engine.create("looped2", "sleep", "1")
    engine.wait_status("looped2", "exited")
    process = subprocess.Popen(["sh", str(script)])
    try:
        world = World(engine, "looped2", {"life_slack_s": 1})
        found = world.judge()
        assert [s.kind for s in found.plans[0].steps] == ["stop-supervisor", "recreate-container"]
        typed(found.plans[0])
        assert process.wait(5) == -signal.SIGTERM
        assert "second-supervisor" not in confirmed(world.judge())
        assert by_hand(found.plans[0].steps[:1]).returncode != 0, "another process with that number is not touched"
    finally:
        process.kill()
        process.wait()
