"""ssh-auth-failure and stuck-spawning, killed at every point: nothing is done twice, every run ends, a report exists.

Each point has an owner of its own: an act that was killed before it was seen to work is remembered for its owner, and
the next run on it rightly asks a person."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.faults.real import RealWorld, killed_at
from tests.support.engine_rig import Rig
from tests.support.sshd_room import Room
from tests.tasks.spawning.conftest import POD, WORKER, World

pytestmark = pytest.mark.scored(fault="SIGKILL of the run", point="while the provider does it")


def runs_of(rig: Rig, folder: Path, world: World, *kinds: str, worker: str = WORKER) -> RealWorld:
    """The runbook on that worker, in processes of its own."""
    fleet = world.fleet().model_dump(mode="json", exclude_defaults=True)
    return RealWorld(rig, folder, "stuck-spawning", f"worker/{worker}", fleet, kinds, world.environment())


@pytest.mark.parametrize("point", killed_at("step-done"))
def test_a_row_is_marked_once(rig: Rig, folder: Path, world: World, point: str) -> None:
    worker = f"{WORKER}-{folder.name[-4:]}"
    world.row(id=worker)
    world.db.do("CREATE TABLE IF NOT EXISTS marks (id text)")
    world.db.do("TRUNCATE marks")
    world.db.do(
        "CREATE OR REPLACE RULE count_marks AS ON UPDATE TO workers WHERE NEW.status <> OLD.status "
        "DO ALSO INSERT INTO marks VALUES (NEW.id)"
    )
    w = runs_of(rig, folder, world, "mark-worker-row", worker=worker)
    w.arm(point)
    w.run("auto")
    assert w.struck(), w.report()["timeline"]
    w.carry_on()
    w.check(max_acts=1)
    done = world.db.do("SELECT count(*) AS n FROM marks")[0]["n"]
    assert done <= 1
    assert done == 1 or world.db.do("SELECT status FROM workers")[0]["status"] == "spawning"
    world.db.do("DROP RULE count_marks ON workers")
    assert "-----BEGIN" not in json.dumps(w.reports())


@pytest.mark.parametrize("point", killed_at())
def test_a_pod_is_ended_once(rig: Rig, folder: Path, world: World, point: str) -> None:
    world.row()
    world.pod(gpus=0)
    w = runs_of(rig, folder, world)
    run = w.run("approve")
    w.arm(point)
    w.approve(run, fault=True, choice="end the pod")
    w.carry_on()
    w.check(max_acts=1)
    assert world.runpod.count("DELETE") <= 1


def test_killed_while_the_pod_is_being_ended_it_is_not_ended_again(rig: Rig, folder: Path, world: World) -> None:
    """The provider has done it, the answer never arrives: the engine looks, and ends nothing a second time."""
    from flows.engine.approval import answer_run

    world.row()
    world.pod(gpus=0)
    world.runpod.vanish_s = 3600  # the pod is still listed, as terminated
    w = runs_of(rig, folder, world)
    run = w.run("approve")
    assert answer_run(run, {"decision": "approve", "who": "ana", "choice": "end the pod"}) == ""
    pids: list[int] = []
    world.runpod.after_act = lambda _act: os.kill(pids[0], signal.SIGKILL)
    pids.append(rig.start_work(w.folder / "fleet.yaml", **(w.env | {"FAULT": ""})))
    rig.wait(pids[0])
    assert world.runpod.pods[POD].change.startswith("Terminated")
    world.runpod.after_act = lambda _act: None
    w.carry_on()
    w.check(max_acts=1)
    assert world.runpod.count("DELETE") == 1
    again = w.run("approve")
    assert again
    assert world.runpod.count("DELETE") == 1
    assert "terminate-pod" not in [s["kind"] for p in w.report()["diagnosis"]["plans"] for s in p["steps"]]


@pytest.mark.parametrize("point", killed_at())
def test_a_path_is_repaired_once(rig: Rig, folder: Path, point: str) -> None:
    room = Room(folder, f"room-{point}")
    room.keys.chmod(0o666)
    with room:
        fleet = room.fleet(folder).model_dump(mode="json", exclude_defaults=True)
        w = RealWorld(rig, folder, "ssh-auth-failure", room.name, fleet, ("repair-ssh-path",))
        w.arm(point)
        w.run("auto")
        assert w.struck(), w.report()["timeline"]
        w.carry_on()
        w.check(max_acts=1)
        assert room.keys.stat().st_mode & 0o777 in (0o666, 0o644)
        assert room.keys.parent.stat().st_mode & 0o777 == 0o700, "nothing else is touched"
        w.fault.unlink(missing_ok=True)
        w.run("auto")
        assert room.keys.stat().st_mode & 0o777 == 0o644
