"""A real Ray head and worker: jobs that fail for different reasons, a killed raylet, and a job stopped by its state."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Step
from runbooks.core.ray_config import RayCluster as RayConfig
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.ray.diagnose import diagnose
from runbooks.ray.limits import Limits
from tasks.context import ActionRefused, Context
from tasks.ray.act import stop_ray_job
from tasks.ray.read import gather_ray_job
from tasks.transport.base import CommandResult
from tasks.transport.local import LocalHost
from tests.faults.real import outcome
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import DASHBOARD, RayCluster, ray_cluster
from tests.support.ray_engine import engine_world, kill_raylet
from tests.support.ray_worker import living, way_in

BAD_IMPORT = """
import ray
ray.init()
@ray.remote(num_cpus=1)
class Engine:
    def __init__(self): import nosuchmodule
    def f(self): return 1
ray.get(Engine.remote().f.remote())
"""


class InNamespace(LocalHost):
    """This machine, with the test's network."""

    def __init__(self, name: str, inside: Sequence[str]) -> None:
        super().__init__(name)
        self._inside = tuple(inside)

    def run(self, argv: Sequence[str], **more: Any) -> CommandResult:
        return super().run((*self._inside, *argv), **more)


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with ray_cluster() as found:
        found.worker(3)
        yield found


def context_of(ray: RayCluster, job: str, **more: Any) -> Context:
    cluster = RayConfig(
        head="head", dashboard=DASHBOARD, temp_dir=str(ray.temp), nodes={"127.0.0.2": "head", "127.0.0.3": "w3"}, **more
    )
    nodes = (Node(name="head", local=True), Node(name="w3", local=True))
    fleet = Fleet(nodes=nodes, ray=cluster)
    return Context(
        fleet=fleet, target="head", open_host=lambda n: InNamespace(n.name, ray.inside), options={"job": job}
    )


def judged(ray: RayCluster, job: str) -> Diagnosis:
    return diagnose(gather_ray_job(context_of(ray, job)), Limits(**load_runbook("ray-job").limit_values()))


def submit(ray: RayCluster, name: str, *words: str, options: Sequence[str] = ()) -> None:
    address = f"RAY_API_SERVER_ADDRESS={DASHBOARD}"
    ray.run(
        "env", address, "ray", "job", "submit", "--no-wait", "--submission-id", name, *options, "--", *words, timeout=90
    )


def status_of(ray: RayCluster, name: str) -> str:
    return str(json.loads(ray.run("curl", "-s", f"{DASHBOARD}/api/jobs/{name}").stdout)["status"])


def wait_status(ray: RayCluster, name: str, status: str, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while status_of(ray, name) != status:
        assert time.monotonic() < end, (name, status_of(ray, name))
        time.sleep(0.5)


def confirmed(found: Diagnosis) -> list[str]:
    return [c.slug for c in found.causes if c.certainty is Certainty.CONFIRMED]


def test_a_cluster_with_a_job_that_a_driver_started_is_not_called_well(ray: RayCluster) -> None:
    assert judged(ray, "").state is State.HEALTHY
    driver = "import ray, time; ray.init(address='auto'); print('up', flush=True); time.sleep(25)"
    ray.run("sh", "-c", f'(python -c "{driver}" > {ray.temp}/driver.out 2>&1 &)')
    end = time.monotonic() + 40
    while "up" not in ray.run("sh", "-c", f"cat {ray.temp}/driver.out || true").stdout:
        assert time.monotonic() < end
        time.sleep(0.5)
    found = judged(ray, "")
    assert found.state is State.CANNOT_TELL, found.headline
    assert any("started by a driver of its own) was not judged" in line for line in found.unknowns)


def test_an_import_error_in_an_actor_is_found_in_its_own_log(ray: RayCluster) -> None:
    submit(ray, "badimport", "python", "-c", BAD_IMPORT)
    wait_status(ray, "badimport", "FAILED")
    found = judged(ray, "badimport")
    assert "actor-import-error" in confirmed(found)
    assert "entrypoint-failed" not in confirmed(found), "what the actor died of is why"
    assert any("nosuchmodule" in line for c in found.causes for line in c.evidence)


@pytest.mark.soak
def test_a_supervisor_that_finds_no_resources(ray: RayCluster) -> None:
    submit(ray, "toobig", "true", options=("--entrypoint-num-cpus", "50"))
    wait_status(ray, "toobig", "FAILED")
    found = judged(ray, "toobig")
    assert confirmed(found)[0] == "start-timed-out"
    assert any("50 CPU" in line for c in found.causes for line in c.evidence)
    assert "supervisor-left" not in confirmed(found), "this version ends its own supervisor"


def test_a_job_is_stopped_only_in_the_state_it_was_judged_in(ray: RayCluster) -> None:
    submit(ray, "long", "sleep", "300")
    wait_status(ray, "long", "RUNNING")
    args = {"dashboard": DASHBOARD, "submission_id": "long", "state": "FAILED", "actor_id": ""}
    step = Step(kind="stop-ray-job", owner="head", args=args, commands=(), effect="")
    with pytest.raises(ActionRefused, match="RUNNING now"):
        stop_ray_job(step, context_of(ray, "long"))
    assert status_of(ray, "long") == "RUNNING"
    stop_ray_job(step.model_copy(update={"args": {**args, "state": "RUNNING"}}), context_of(ray, "long"))
    wait_status(ray, "long", "STOPPED")
    assert confirmed(judged(ray, "long")) == ["stopped-on-purpose"]


def test_a_killed_raylet_is_named_and_started_again_by_the_engine(ray: RayCluster, rig: Rig, tmp_path: Path) -> None:
    submit(ray, "waits", "sleep", "300")
    wait_status(ray, "waits", "RUNNING")
    kill_raylet(ray)
    found = judged(ray, "waits")
    assert "raylet-dead" in confirmed(found), found
    with way_in(ray.netns, *DASHBOARD.removeprefix("http://").split(":")) as port:
        world = engine_world(ray, rig, tmp_path, f"http://127.0.0.1:{port}")
        assert outcome(world.run("diagnose", options={"job": "waits"})) == "sick"
        assert not living(ray, "127.0.0.3")
        run = world.run("approve", options={"job": "waits"})
        assert outcome(run) == "waiting"
        world.approve(run)
        said = world.report()
        assert outcome(run) == "fixed", {k: said[k] for k in ("guards", "acts", "timeline", "after", "diagnosis")}
        assert len(living(ray, "127.0.0.3")) == 1
        assert "is ALIVE at the head" in str(world.report()["acts"])
