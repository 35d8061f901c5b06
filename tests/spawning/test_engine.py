"""ssh-auth-failure and stuck-spawning through the engine: real sshd, real PostgreSQL, the stand-in provider."""

import json
from pathlib import Path

import pytest

from flows.specs import load_spec
from flows.sweeping import Sweep, _checked
from runbooks.core.fleet import Fleet
from tests.faults.real import RealWorld, outcome
from tests.support.engine_rig import Rig
from tests.support.sshd_room import Room
from tests.tasks.spawning.conftest import POD, WORKER, World

KINDS = ("repair-ssh-path", "mark-worker-row", "start-worker", "start-worker-unverified")


def real(rig: Rig, folder: Path, slug: str, target: str, fleet: Fleet, env: dict[str, str] | None = None) -> RealWorld:
    """This runbook on that fleet, where a path and a row may be mended by themselves."""
    data = fleet.model_dump(mode="json", exclude_defaults=True)
    return RealWorld(rig, folder, slug, target, data, KINDS, env)


def test_a_path_is_repaired_by_itself_and_proven_by_a_fresh_log_in(rig: Rig, folder: Path) -> None:
    room = Room(folder)
    room.keys.chmod(0o666)
    with room:
        runs = real(rig, folder, "ssh-auth-failure", "room", room.fleet(folder))
        assert outcome(runs.run("diagnose")) == "sick", str(
            {k: runs.report()[k] for k in ("headline", "guards", "timeline")}
        )
        assert room.keys.stat().st_mode & 0o777 == 0o666
        assert outcome(runs.run("auto")) == "fixed", runs.report()
        assert room.keys.stat().st_mode & 0o777 == 0o644
        report = runs.report()
        assert report["acts"][0]["outcome"] == "done"
        assert report["after"]["state"] == "healthy"
        assert "Accepted publickey" in room.read_log()
        assert "-----BEGIN" not in json.dumps(report)


def test_a_row_follows_its_pod_by_itself(rig: Rig, folder: Path, world: World) -> None:
    world.row()
    runs = real(rig, folder, "stuck-spawning", f"worker/{WORKER}", world.fleet(), world.environment())
    assert outcome(runs.run("auto")) == "fixed", runs.report()
    assert world.db.do("SELECT status FROM workers")[0]["status"] == "terminated"


def test_nothing_is_done_by_itself_over_a_host_key_that_was_only_seen_first(
    rig: Rig, folder: Path, world: World
) -> None:
    world.row()
    world.pod()
    runs = real(rig, folder, "stuck-spawning", f"worker/{WORKER}", world.fleet(), world.environment())
    assert outcome(runs.run("auto")) == "waiting", runs.report()
    assert outcome(runs.run("auto")) == "waiting", "having been seen twice vouches for nothing"


def test_the_nightly_looks_at_all_late_workers_as_one(
    folder: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    world.row()
    world.pod(desired="EXITED", change="Outbid: Mon Aug 04 2025")
    sweep = Sweep(fleet=world.fleet(), slugs=("stuck-spawning",), folder=folder / "out", run_id="r", trigger="nightly")
    assert load_spec("stuck-spawning").nightly_targets(world.fleet()) == ("workers",)
    (result,), _ = _checked(sweep, "workers", ["stuck-spawning"])
    assert (result.node, result.outcome, result.causes) == ("workers", "sick", ("outbid",)), result
    assert "1 worker stuck" in result.headline


def test_a_pod_is_ended_only_by_a_person_and_only_once(rig: Rig, folder: Path, world: World) -> None:
    world.row()
    world.pod(gpus=0)
    runs = real(rig, folder, "stuck-spawning", f"worker/{WORKER}", world.fleet(), world.environment())
    run = runs.run("auto")
    assert outcome(run) == "waiting", runs.report()
    assert world.runpod.count("DELETE") == 0
    runs.approve(run, choice="end the pod")
    assert POD not in world.runpod.pods
    assert world.runpod.count("DELETE") == 1
    assert runs.report()["acts"][0]["outcome"] == "done"


def test_a_pod_that_comes_up_during_approval_is_left_alone(rig: Rig, folder: Path, world: World) -> None:
    world.row()
    pod = world.pod(gpus=0)
    runs = real(rig, folder, "stuck-spawning", f"worker/{WORKER}", world.fleet(), world.environment())
    run = runs.run("approve")
    assert outcome(run) == "waiting"
    pod.gpus = 1
    world.db.do("UPDATE workers SET status = 'active', last_heartbeat = now(), updated_at = now()")
    runs.approve(run, choice="end the pod")
    assert world.runpod.count("DELETE") == 0
    assert POD in world.runpod.pods
