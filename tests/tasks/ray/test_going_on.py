"""Stopped processes of a real Ray cluster are continued, and only they. Nothing is lost, and everything else stays as it was."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runbooks.core.halted import NAME
from runbooks.core.verdict import Diagnosis, State
from tests.faults.real import outcome
from tests.support.engine_rig import Rig
from tests.support.gpu_node import state, wait_state
from tests.support.printed import by_hand
from tests.support.ray_cluster import DASHBOARD, HEAD, RayCluster, ray_cluster
from tests.support.ray_engine import WORKER, engine_world, raylets
from tests.support.ray_worker import living, way_in
from tests.support.waiting import until
from tests.tasks.ray.test_real_ray import confirmed, judged, status_of, submit, wait_status

PATIENCE_S = 3000  # the head of these tests never marks a stopped raylet's node DEAD, and no raylet gives up a stopped head


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with ray_cluster(PATIENCE_S) as found:
        found.worker(3)
        submit(found, "long", "sleep", "3000")
        wait_status(found, "long", "RUNNING")
        yield found


@pytest.fixture
def beside() -> Iterator[int]:
    """Somebody else's process, stopped for a reason of its own."""
    with subprocess.Popen(["sleep", "3000"], start_new_session=True) as p:
        p.send_signal(signal.SIGSTOP)
        wait_state(p.pid, "T", 60)
        yield p.pid
        p.kill()


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """By SIGSTOP; whatever the test did, they run afterwards."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        wait_state(pid, "T", 60)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def well(ray: RayCluster) -> bool:
    return judged(ray, "long").state is State.HEALTHY


def continued(found: Diagnosis) -> list[int]:
    """Pids of its first plan, which is that one step."""
    (step,) = found.plans[0].steps
    assert (found.plans[0].name, step.kind) == (NAME, "continue-processes")
    return [p["pid"] for p in step.args["processes"]]


def test_a_stopped_head_is_continued_by_the_engine(ray: RayCluster, rig: Rig, tmp_path: Path, beside: int) -> None:
    """GCS and dashboard at once, as whoever stops a service by its group stops them; by one approval."""
    parts = [ray.process("gcs_server"), ray.process("dashboard/dashboard.py")]
    before = (parts, raylets(ray), raylets(ray, HEAD))
    with way_in(ray.netns, *DASHBOARD.removeprefix("http://").split(":")) as port:
        world = engine_world(ray, rig, tmp_path, f"http://127.0.0.1:{port}")
        with stopped(*parts):
            assert continued(judged(ray, "long")) == parts
            run = world.run("approve", options={"job": "long"})
            assert outcome(run) == "waiting"
            assert [state(p) for p in parts] == ["T", "T"], "nobody has approved yet"
            world.approve(run)
            assert outcome(run) == "fixed"
        (act,) = world.report()["acts"]
        assert all(f"pid {p} runs again" in str(act) for p in parts)
    assert (state(beside), status_of(ray, "long")) == ("T", "RUNNING")
    assert before == ([ray.process("gcs_server"), ray.process("dashboard/dashboard.py")], raylets(ray), raylets(ray, HEAD))


def test_a_stopped_raylet_is_continued_by_the_engine_and_stays_the_node_that_it_was(
    ray: RayCluster, rig: Rig, tmp_path: Path, beside: int
) -> None:
    """Without a question where the policy allows it. It is not restarted, and no second raylet is started beside it."""
    (pid,), node = raylets(ray), living(ray, WORKER)
    with way_in(ray.netns, *DASHBOARD.removeprefix("http://").split(":")) as port, stopped(pid):
        found = judged(ray, "long")
        assert (confirmed(found), continued(found)) == (["raylet-stuck"], [pid])
        world = engine_world(ray, rig, tmp_path, f"http://127.0.0.1:{port}")
        assert outcome(world.run("auto", options={"job": "long"})) == "fixed"
        assert [a["kinds"] for a in world.report()["acts"]] == [["continue-processes"]]
    assert (raylets(ray), living(ray, WORKER), state(beside)) == ([pid], node, "T")


def tree(pid: int) -> list[int]:
    """The process and all below it; not what ends by itself within a second."""
    found = [pid]
    for entry in sorted((p for p in Path("/proc").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)):
        with suppress(OSError):
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(words[1]) == pid and (entry / "cmdline").read_text() != "sleep\0001\0":
                found += tree(int(entry.name))
    return found


@pytest.fixture
def reader(ray: RayCluster) -> Iterator[int]:
    """Somebody who follows a log of the session, and has suspended that."""
    log = (ray.temp / "session_latest").resolve() / "logs" / "raylet.out"
    with subprocess.Popen(["tail", "-f", str(log)], start_new_session=True) as p:
        p.send_signal(signal.SIGSTOP)
        wait_state(p.pid, "T", 60)
        yield p.pid
        p.kill()


def test_all_of_a_session_that_was_stopped_goes_on(ray: RayCluster, beside: int, reader: int) -> None:
    """Who stops a service by its control group stops the dashboard's own processes, the agents, the workers and the job as well."""
    every = tree(ray.processes[2].pid)
    assert len(every) > 15
    with stopped(*every):
        plan = judged(ray, "long").plans[0]
        (step,) = plan.steps
        assert sorted(p["pid"] for p in step.args["processes"]) == sorted(every)
        assert by_hand(plan.steps).returncode == 0
        assert [p for p in every if state(p) == "T"] == []
        until(lambda: well(ray), 120, "a head that is well")
    assert (state(beside), state(reader), status_of(ray, "long")) == ("T", "T", "RUNNING")


def test_what_is_printed_continues_a_head(ray: RayCluster) -> None:
    gcs = ray.process("gcs_server")
    with stopped(gcs):
        plan = judged(ray, "long").plans[0]
        assert by_hand(plan.steps).returncode == 0
        wait_state(gcs, "SR", 60)
        until(lambda: well(ray), 120, "a head that is well")
