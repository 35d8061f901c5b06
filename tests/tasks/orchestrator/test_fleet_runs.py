"""fleet-sync through the engine: found, asked for, approved, done and verified; a racer between the question and the answer."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.real import RealWorld, outcome
from tests.support.engine_rig import Rig
from tests.support.postgrest import PostgRest
from tests.tasks.orchestrator.fleet_world import FleetWorld

pytestmark = pytest.mark.scored(fault="none: the whole way", point="-")
KINDS = ("mark-worker-row", "recover-pod-id")


@pytest.fixture(params=["sql", "rest"])
def world(there: PostgRest, request: pytest.FixtureRequest) -> Iterator[FleetWorld]:
    """A fleet whose ids are of this test alone: locks are on pods and workers, and no test waits for another."""
    made = FleetWorld(there, request.param)
    yield made
    made.runpod.close()


@pytest.fixture
def own() -> str:
    """A word of this test alone."""
    return os.urandom(4).hex()


def real(rig: Rig, folder: Path, world: FleetWorld) -> RealWorld:
    data = world.fleet().model_dump(mode="json", exclude_defaults=True)
    return RealWorld(rig, folder, "fleet-sync", "fleet", data, KINDS, world.environment())


def names(w: RealWorld) -> list[str]:
    return [p["name"] for p in w.report()["diagnosis"]["plans"]]


def act(w: RealWorld) -> Any:
    return w.report()["acts"][0]


def test_an_orphan_is_ended_by_a_persons_word_alone(rig: Rig, tmp_path: Path, world: FleetWorld, own: str) -> None:
    """Two orphans and a stranger: diagnosed, never by itself, and one pod for one approval."""
    world.both(f"gpu-{own}")
    for letter in "ab":
        world.pod(f"{own}{letter}", f"gpu-{own}{letter}")
    world.pod(f"{own}x", "jupyter")
    w = real(rig, tmp_path, world)
    assert outcome(w.run("diagnose")) == "sick", w.report()
    assert names(w) == [f"end the pod: {own}a", f"end the pod: {own}b"]
    assert outcome(w.run("auto")) == "waiting", "ending a pod is never automatic"
    run = w.run("approve")
    assert outcome(run) == "waiting"
    assert world.runpod.count("DELETE") == 0
    w.approve(run, choice=f"end the pod: {own}b")
    assert outcome(run) in ("fixed", "not-fixed"), w.report()["timeline"]
    assert act(w)["outcome"] == "done"
    assert world.runpod.count("DELETE") == 1
    assert f"{own}b" not in world.runpod.pods
    assert len(world.runpod.pods) == 4


def test_a_row_that_is_written_during_the_approval_keeps_its_pod(rig: Rig, tmp_path: Path, world: FleetWorld, own: str) -> None:
    world.pod(f"{own}a", f"gpu-{own}")
    w = real(rig, tmp_path, world)
    run = w.run("approve")
    assert outcome(run) == "waiting"
    world.row(f"gpu-{own}", "spawning", runpod_id=f"{own}a", beat_s=None)
    w.approve(run, choice=f"end the pod: {own}a")
    assert world.runpod.count("DELETE") == 0
    assert f"{own}a" in world.runpod.pods


def test_a_stale_row_follows_its_pod_by_itself(rig: Rig, tmp_path: Path, world: FleetWorld, own: str) -> None:
    world.row(f"gpu-{own}", beat_s=5000)
    w = real(rig, tmp_path, world)
    assert outcome(w.run("auto")) == "fixed", w.report()["timeline"]
    assert world.status(f"gpu-{own}") == "terminated"
    assert w.report()["after"]["state"] == "healthy"
    w.check(max_acts=1)


def test_a_worker_that_reports_during_the_approval_keeps_its_row(rig: Rig, tmp_path: Path, world: FleetWorld, own: str) -> None:
    world.row(f"gpu-{own}", beat_s=5000)
    w = real(rig, tmp_path, world)
    run = w.run("approve")
    assert outcome(run) == "waiting"
    world.do("UPDATE workers SET last_heartbeat = now() WHERE id = $1", f"gpu-{own}")
    w.approve(run)
    assert world.status(f"gpu-{own}") == "active"


def test_a_lost_pod_id_is_written_again(rig: Rig, tmp_path: Path, world: FleetWorld, own: str) -> None:
    """Asked for first; the worker reports all the while, which does not stand against it."""
    world.row(f"gpu-{own}", runpod_id=None)
    world.pod(f"{own}a", f"gpu-{own}")
    w = real(rig, tmp_path, world)
    assert outcome(w.run("diagnose")) == "sick"
    run = w.run("approve")
    assert outcome(run) == "waiting"
    world.do("UPDATE workers SET last_heartbeat = now() WHERE id = $1", f"gpu-{own}")
    w.approve(run)
    assert outcome(run) == "fixed", w.report()["timeline"]
    (row,) = world.do("SELECT metadata ->> 'runpod_id' AS pod FROM workers WHERE id = $1", f"gpu-{own}")
    assert row["pod"] == f"{own}a"
    assert w.report()["after"]["state"] == "healthy"
