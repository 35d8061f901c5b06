"""The commands of a report, pasted into a shell on a real Ray cluster: a raylet is started, a leftover of a failed job is ended."""

from collections.abc import Iterator

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Step
from runbooks.core.verdict import Diagnosis
from runbooks.ray.diagnose import diagnose
from runbooks.ray.limits import Limits
from tasks.ray.read import gather_ray_job
from tests.support.printed import by_hand
from tests.support.ray_cluster import RayCluster, ray_cluster
from tests.support.ray_engine import WORKER, kill_raylet, leave_supervisor, raylet_start, raylets, supervisors
from tests.support.ray_worker import living
from tests.support.waiting import until
from tests.tasks.ray.test_real_ray import confirmed, context_of, submit, wait_status


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with ray_cluster() as found:
        found.worker(3)
        yield found


def judged(ray: RayCluster, job: str) -> Diagnosis:
    """With a fleet file that knows how the worker's raylet is started."""
    context = context_of(ray, job, restart_raylet={"w3": raylet_start(ray)})
    return diagnose(gather_ray_job(context), Limits(**load_runbook("ray-job").limit_values()))


def steps(found: Diagnosis) -> list[Step]:
    return [s for p in found.plans for s in p.steps]


def test_a_dead_raylet_is_started(ray: RayCluster) -> None:
    submit(ray, "waits", "sleep", "3000")
    wait_status(ray, "waits", "RUNNING")
    head = raylets(ray, "127.0.0.2")
    kill_raylet(ray)
    found = judged(ray, "waits")
    assert [s.kind for s in steps(found)] == ["restart-raylet"]
    done = by_hand(steps(found))
    assert done.returncode == 0, done.stderr
    assert len(living(ray, WORKER)) == 1
    assert "raylet-dead" not in confirmed(judged(ray, "waits"))
    assert raylets(ray, "127.0.0.2") == head


def test_a_failed_jobs_supervisor_goes(ray: RayCluster) -> None:
    """A job that runs, under the same command, is not stopped."""
    for name in ("gone", "beside"):
        submit(ray, name, *(("false",) if name == "gone" else ("sleep", "3000")))
        wait_status(ray, name, "FAILED" if name == "gone" else "RUNNING")
    leave_supervisor(ray, "gone")
    found = judged(ray, "gone")
    (step,) = steps(found)
    assert step.kind == "stop-ray-job"
    other = step.model_copy(update={"commands": tuple(c.replace("/gone", "/beside") for c in step.commands)})
    assert by_hand([other], *ray.inside).returncode != 0
    wait_status(ray, "beside", "RUNNING", 1)
    done = by_hand([step], *ray.inside)
    assert done.returncode == 0, (step.commands, done.stderr)
    until(lambda: supervisors(ray, "gone") == [], 15, "the end of the supervisor")  # as long as the action itself waits
    assert "supervisor-left" not in confirmed(judged(ray, "gone"))
    assert supervisors(ray, "beside")
