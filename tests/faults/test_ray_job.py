"""ray-job on a real Ray cluster, killed at every point of a run: no act twice, a true report, and the next run heals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.real import AFTER_A_STEP, EVERY_POINT, RealWorld, outcome
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import DASHBOARD, RayCluster, ray_cluster
from tests.support.ray_engine import engine_world, kill_raylet, leave_supervisor, raylets, supervisors
from tests.support.ray_worker import living, way_in
from tests.tasks.ray.test_real_ray import submit, wait_status

pytestmark = [pytest.mark.soak, pytest.mark.scored(fault="killed", point="by hand")]



@pytest.fixture(scope="module")
def place() -> Iterator[tuple[RayCluster, str]]:
    with ray_cluster() as ray, way_in(ray.netns, *DASHBOARD.removeprefix("http://").split(":")) as port:
        ray.worker(3)
        submit(ray, "gone", "false")
        wait_status(ray, "gone", "FAILED")
        submit(ray, "waits", "sleep", "3000")
        wait_status(ray, "waits", "RUNNING")
        yield ray, f"http://127.0.0.1:{port}"


def struck_and_ended(world: RealWorld, point: str, job: str) -> None:
    """A run that is killed at `point`, and what reaper and workers make of it."""
    world.arm(point)
    world.run("auto", options={"job": job})
    assert world.struck()
    world.carry_on()
    world.check(max_acts=1)


@pytest.mark.parametrize("point", EVERY_POINT)
def test_a_raylet_is_started_once(rig: Rig, tmp_path: Path, place: tuple[RayCluster, str], point: str) -> None:
    ray, dashboard = place
    kill_raylet(ray)
    world = engine_world(ray, rig, tmp_path, dashboard)
    struck_and_ended(world, point, "waits")
    assert len(raylets(ray)) == (point in AFTER_A_STEP)
    run = world.run("auto", options={"job": "waits"})
    if outcome(run) == "waiting":  # the act before is not known to have ended well: a person is asked
        world.approve(run)
    assert len(living(ray, "127.0.0.3")) == 1
    assert len(raylets(ray)) == 1


@pytest.mark.parametrize("point", EVERY_POINT)
def test_a_leftover_is_stopped_once(rig: Rig, tmp_path: Path, place: tuple[RayCluster, str], point: str) -> None:
    ray, dashboard = place
    if not supervisors(ray, "gone"):
        leave_supervisor(ray, "gone")
    world = engine_world(ray, rig, tmp_path, dashboard)
    struck_and_ended(world, point, "gone")
    assert len(supervisors(ray, "gone")) == (point not in AFTER_A_STEP)
    run = world.run("auto", options={"job": "gone"})
    if outcome(run) == "waiting":
        world.approve(run)
    assert supervisors(ray, "gone") == []
