"""Real deaths of real containers, each judged for what it was."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from runbooks.core.verdict import State
from tests.support.docker_engine import Engine
from tests.support.waiting import until
from tests.tasks.container.world import World, confirmed


def pids_of(engine: Engine, ident: str) -> list[int]:
    """Pids of a container's processes, first process first."""
    found = next(Path("/sys/fs/cgroup").glob(f"*/{engine.group}/{ident}/cgroup.procs"))
    return sorted(int(p) for p in found.read_text().split())


def words_of(pid: int) -> list[str]:
    """Its command line; empty where it ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


CASES = [
    ("sleep-ends", ("sleep", "2"), (), "keep-alive-ended"),
    ("shell-sleep-ends", ("sh", "-c", "echo up; exec sleep 2"), (), "keep-alive-ended"),
    ("exit-zero", ("true",), (), "main-exited-zero"),
    ("exit-three", ("sh", "-c", "echo last words; exit 3"), (), "main-exited-error"),
    ("oom", ("tail", "/dev/zero"), ("-m", "32m"), "oom-container"),
    ("abort", ("sh", "-c", "kill -ABRT $$; sleep 1"), ("--init",), "crashed"),
    ("crash", ("sh", "-c", "kill -SEGV $$; sleep 1"), ("--init",), "crashed"),
    ("bus", ("sh", "-c", "kill -BUS $$; sleep 1"), ("--init",), "bus-error"),
]


@pytest.mark.parametrize(("name", "words", "options", "slug"), CASES, ids=[c[0] for c in CASES])
def test_a_container_that_ends_by_itself(engine: Engine, name: str, words: tuple[str, ...], options: tuple[str, ...],
                                         slug: str) -> None:  # fmt: skip
    engine.create(name, *words, options=options)
    code = engine.wait_status(name, "exited")["State"]["ExitCode"]
    found = World(engine, name, {"life_slack_s": 1}).judge()
    ended_well = slug == "main-exited-zero"  # and nothing says that it should run on
    assert found.state is (State.CANNOT_TELL if ended_well else State.UNHEALTHY)
    assert slug in [c.slug for c in found.causes], (code, found)
    if slug == "main-exited-error":
        assert any("last words" in line for c in found.causes for line in c.evidence)


def test_killed_from_the_host_is_not_called_out_of_memory(engine: Engine) -> None:
    ident = engine.create("killed", "sleep", "1000")
    os.kill(pids_of(engine, ident)[0], signal.SIGKILL)
    engine.wait_status("killed", "exited")
    found = World(engine, "killed", {"together_s": 0.01}).judge()  # other tests' containers end in these seconds, too
    assert confirmed(found) == ["killed-from-outside"]
    assert any("137" in line for line in found.must_not)
    assert [p.name for p in found.plans] == ["recreate"]


def test_killed_through_the_engine(engine: Engine) -> None:
    engine.create("dkill", "sleep", "1000")
    engine.run("kill", "dkill")
    engine.wait_status("dkill", "exited")
    assert confirmed(World(engine, "dkill").judge()) == ["killed-through-engine"]


@pytest.mark.parametrize("words", [("sleep", "1000"), ("sh", "-c", "trap : TERM; while :; do sleep 1; done")])
def test_stopped_by_a_person_is_left_alone(engine: Engine, words: tuple[str, ...]) -> None:
    name = f"stopped{len(words)}"
    engine.create(name, *words)
    engine.run("stop", "-t", "1", name)
    assert engine.wait_status(name, "exited")["State"]["ExitCode"] == 137
    found = World(engine, name).judge()
    assert confirmed(found) == ["stopped-on-purpose"]
    assert found.plans == ()
    assert found.state is State.HEALTHY  # nothing is wrong: it is as somebody wanted it


def test_a_child_killed_for_memory_is_not_the_end_of_its_container(engine: Engine) -> None:
    pids = partial(pids_of, engine, engine.create("child", "sh", "-c", "tail /dev/zero; exec sleep 100", options=("-m", "32m")))
    until(lambda: [words_of(pid) for pid in pids()] == [["sleep", "100"]], 60, "the end of its child")
    assert "oom-child" in confirmed(World(engine, "child").judge())


def test_a_command_that_is_not_there(engine: Engine) -> None:
    engine.run("create", "--network=host", "--name", "nope", "bb:1", "/nope")
    engine.run("start", "nope", check=False)
    found = World(engine, "nope").judge()
    assert confirmed(found) == ["bad-command"]
    assert found.plans == ()


def test_a_bind_source_that_is_gone(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    mount = f"type=bind,src={folder},dst=/data"
    engine.create("bind", "sleep", "1", options=("--mount", mount))
    engine.wait_status("bind", "exited")
    folder.rmdir()
    found = World(engine, "bind", {"life_slack_s": 1}).judge()
    assert confirmed(found) == ["mount-gone", "keep-alive-ended"]
    assert found.plans == ()


def test_a_restart_loop_is_seen_with_its_period(engine: Engine) -> None:
    engine.create("loop", "sh", "-c", "sleep 0.3; exit 5", options=("--restart", "always"))
    end = time.monotonic() + 30
    while engine.inspect("loop")["RestartCount"] < 4 and time.monotonic() < end:
        time.sleep(0.2)
    found = World(engine, "loop").judge()
    engine.run("rm", "-f", "loop")
    assert "restart-loop" in confirmed(found)
    assert any("every" in line for c in found.causes for line in c.evidence)
    assert found.plans == ()


def test_a_container_without_its_application(engine: Engine) -> None:
    engine.create("idle", "sleep", "infinity")
    found = World(engine, "idle", match="raylet").judge()
    assert confirmed(found) == ["application-dead"]


def test_a_probe_that_does_not_answer(engine: Engine) -> None:
    engine.create("stuck", "sleep", "infinity")
    found = World(engine, "stuck", probe=("sleep", "30"), probe_timeout_s=1).judge()
    assert confirmed(found) == ["application-stuck"]


def test_a_paused_one_is_left_alone(engine: Engine) -> None:
    engine.create("paused", "sleep", "infinity")
    engine.run("pause", "paused")
    found = World(engine, "paused").judge()
    engine.run("unpause", "paused")
    assert confirmed(found) == ["paused"]
    assert found.plans == ()


def test_a_running_one_is_healthy(engine: Engine) -> None:
    engine.create("well", "sleep", "infinity")
    assert World(engine, "well", match="sleep").judge().state is State.HEALTHY


def test_a_removed_one_is_missing_not_dead(engine: Engine) -> None:
    engine.create("removed", "sleep", "infinity")
    engine.run("rm", "-f", "removed")
    found = World(engine, "removed").judge()
    assert confirmed(found) == ["container-missing"]
    assert found.plans == ()


def test_the_environment_is_never_kept(engine: Engine) -> None:
    engine.create("secret", "sleep", "infinity", options=("-e", "HF_TOKEN=zq-very-secret-9"))
    evidence = World(engine, "secret").gather()
    assert "zq-very-secret-9" not in evidence.model_dump_json()
    assert "HF_TOKEN" in evidence.model_dump_json()


def test_an_old_retry_loop_is_found_and_stopped_by_identity(engine: Engine, tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "ray_retry.sh"
    docker = " ".join(engine.argv)
    script.write_text(f"#!/bin/sh\nwhile true; do\n  {docker} exec looped true >/dev/null 2>&1\n  sleep 0.5\ndone\n")
    engine.create("looped", "sleep", "1")
    engine.wait_status("looped", "exited")
    process = subprocess.Popen(["sh", str(script)])
    try:
        world = World(engine, "looped", {"life_slack_s": 1})
        found = world.judge()
        if "second-supervisor" not in confirmed(found):  # a busy machine: what could not be read in its time is said, and read again
            assert found.unknowns
            found = world.judge()
        assert confirmed(found) == ["keep-alive-ended", "second-supervisor"], found.unknowns
        kinds = [s.kind for s in found.plans[0].steps]
        assert kinds == ["stop-supervisor", "recreate-container"]
        world.act(found.plans[0])
        assert process.wait(5) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()
