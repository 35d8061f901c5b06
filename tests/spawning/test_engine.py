"""ssh-auth-failure and stuck-spawning through the engine: real sshd, real PostgreSQL, the stand-in provider."""

import json
from pathlib import Path

import pytest

from flows.specs import load_spec
from flows.sweep.sweeping import Sweep, check_target
from runbooks.core.fleet import Fleet
from tests.faults.real import RealWorld, outcome
from tests.support.engine_rig import Rig
from tests.support.s3 import ADMIN, Proxy, S3Server
from tests.support.sshd_room import Room
from tests.tasks.spawning.conftest import POD, WORKER, World
from tests.tasks.spawning.test_service import crashed

pytestmark = pytest.mark.scored(fault="none: the whole way", point="-")

KINDS = ("repair-ssh-path", "mark-worker-row", "start-worker", "start-worker-unverified")


def real(rig: Rig, folder: Path, slug: str, target: str, fleet: Fleet, env: dict[str, str] | None = None) -> RealWorld:
    """This runbook on that fleet, where a path and a row may be mended by themselves."""
    data = fleet.model_dump(mode="json", exclude_defaults=True)
    return RealWorld(rig, folder, slug, target, data, KINDS, env)


@pytest.mark.soak
def test_a_path_is_repaired_in_every_mode_and_proven_by_a_fresh_log_in(rig: Rig, folder: Path) -> None:
    room = Room(folder)
    room.keys.chmod(0o666)
    with room:
        runs = real(rig, folder, "ssh-auth-failure", "room", room.fleet(folder))
        assert outcome(runs.run("diagnose")) == "sick", str(
            {k: runs.report()[k] for k in ("headline", "guards", "timeline")}
        )
        assert room.keys.stat().st_mode & 0o777 == 0o666
        asked = runs.run("approve")
        assert outcome(asked) == "waiting"
        assert room.keys.stat().st_mode & 0o777 == 0o666
        runs.approve(asked)
        assert outcome(asked) == "fixed", runs.report()
        assert room.keys.stat().st_mode & 0o777 == 0o644
        room.keys.chmod(0o666)
        before = len(room.read_log())
        assert outcome(runs.run("auto")) == "fixed", runs.report()
        assert room.keys.stat().st_mode & 0o777 == 0o644
        report, log = runs.report(), room.read_log()[before:]
        assert report["acts"][0]["outcome"] == "done"
        assert report["after"]["state"] == "healthy"
        assert (log.count("Failed publickey"), log.count("Accepted publickey")) == (1, 1), (
            "once before, once as the proof"
        )
        assert "-----BEGIN" not in json.dumps(report)


def test_nothing_is_done_by_itself_over_a_host_key_that_was_only_seen_first(
    rig: Rig, folder: Path, world: World
) -> None:
    world.row()
    world.pod()
    runs = real(rig, folder, "stuck-spawning", f"worker/{WORKER}", world.fleet(), world.environment())
    assert outcome(runs.run("auto")) == "waiting", runs.report()["diagnosis"]["causes"]
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
    (result,), *_ = check_target.fn(sweep, "workers", "stuck-spawning")
    assert (result.node, result.outcome, result.causes) == ("workers", "sick", ("outbid",)), result
    assert "1 worker stuck" in result.headline


def died_with_a_stored_log(world: World, s3: S3Server, url: str) -> dict[str, str]:
    """A pod whose worker is gone with its log; its last words are on S3 alone. Returns the environment."""
    world.row()
    world.pod()
    body = (
        b"".join(b"line %d\n" % n for n in range(50_000))
        + b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'flash_attn'\n"
    )
    s3.client().put_object(Bucket="ckpt", Key=f"logs/{WORKER}.log", Body=body)
    world.fields["logs"] = {"bucket": "ckpt", "endpoint": url}
    return world.environment() | {"AWS_ACCESS_KEY_ID": ADMIN[0], "AWS_SECRET_ACCESS_KEY": ADMIN[1]}


@pytest.mark.soak
def test_last_words_on_s3_in_every_mode(rig: Rig, folder: Path, world: World, s3: S3Server) -> None:
    """sshd, PostgreSQL, provider and S3 in one run; diagnosed, asked for, and done by a person's word."""
    proxy = Proxy(s3.port)
    env = died_with_a_stored_log(world, s3, proxy.url)
    runs = real(rig, folder, "stuck-spawning", f"worker/{WORKER}", world.fleet(), env)
    assert outcome(runs.run("diagnose")) == "sick"
    first = runs.report()["diagnosis"]["causes"][0]
    assert (first["slug"], first["certainty"]) == ("worker-died", "confirmed")
    assert "its last words: ModuleNotFoundError: No module named 'flash_attn'" in first["evidence"]
    assert proxy.bytes_out < 300_000, "the end of the log, not the whole"
    assert outcome(runs.run("auto")) == "waiting", "ending a pod is never automatic"
    asked = runs.run("approve")
    assert world.runpod.count("DELETE") == 0
    runs.approve(asked, choice="end the pod")
    assert world.runpod.count("DELETE") == 1
    assert POD not in world.runpod.pods
    assert runs.report()["acts"][0]["outcome"] == "done"
    proxy.stop()


def test_all_late_workers_are_put_right_one_by_one(rig: Rig, folder: Path, world: World) -> None:
    """The target `workers`: two rows whose pods are gone, a third that is well. One act a run, each on the right row."""
    world.row()
    world.row(id="gpu-b", pod="podbbbb1", age_s=800)
    world.row(id="gpu-c", pod="podcccc1", status="active", beat_s=5)
    world.runpod.add("podcccc1", name="gpu-c")
    runs = real(rig, folder, "stuck-spawning", "workers", world.fleet(), world.environment())
    for left, end in ((1, ("fixed", "not-fixed")), (0, ("fixed",))):
        assert outcome(runs.run("auto")) in end, runs.report()
        late = world.db.do("SELECT count(*) AS n FROM workers WHERE status = 'spawning'")[0]["n"]
        assert late == left, runs.report()
        names = [p["name"] for p in runs.report()["diagnosis"]["plans"]]
        assert names == [f"mark the row: {WORKER}", "mark the row: gpu-b"][1 - left :]
        assert runs.report()["acts"][0]["outcome"] == "done"
    assert world.db.do("SELECT status FROM workers WHERE id = 'gpu-c'")[0]["status"] == "active"


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


def test_a_crashed_orchestrator_is_started_again_after_an_approval(rig: Rig, folder: Path, world: World) -> None:
    """Asked first; nobody else's deployment is touched; proven by a cycle of its own."""
    world.row(status="active", beat_s=5)
    world.pod()
    world.railway.lines, world.railway.status = [], "CRASHED"
    runs = real(rig, folder, "stuck-spawning", "workers", world.fleet(), world.environment())
    run = runs.run("approve")
    assert outcome(run) == "waiting"
    assert world.railway.begun == []
    runs.approve(run, choice="restart the service")
    assert outcome(run) == "fixed", runs.report()
    assert world.railway.begun == ["dep1"]
    (act,) = runs.report()["acts"]
    assert (act["kinds"], act["outcome"]) == (["restart-service"], "done")


def test_an_orchestrator_that_cycles_again_during_approval_is_left_alone(rig: Rig, folder: Path, world: World) -> None:
    crashed(world)
    runs = real(rig, folder, "stuck-spawning", "workers", world.fleet(), world.environment())
    run = runs.run("approve")
    assert outcome(run) == "waiting"
    world.railway.status = "SUCCESS"
    world.railway.cycle()
    runs.approve(run, choice="restart the service")
    assert world.railway.begun == []
