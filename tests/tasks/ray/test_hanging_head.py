"""A Ray head that hangs, is gone, or has only lost its dashboard: told apart in time, and nothing is done without approval."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runbooks.core.halted import NAME
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis, State
from runbooks.ray.diagnose import diagnose
from runbooks.ray.limits import Limits
from tasks.ray.read import gather_ray_job
from tests.faults.real import outcome
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import DASHBOARD, HEAD, RayCluster, ray_cluster
from tests.support.ray_engine import engine_world, raylets
from tests.tasks.ray import test_real_ray as real
from tests.tasks.ray.test_real_ray import status_of, submit, wait_status

pytestmark = pytest.mark.soak
IN_TIME_S = 30.0
DUMB = """
import socket, sys, time
door = socket.create_server(("127.0.0.2", 29999))
print("ready", flush=True)
kept = []
while True:
    caller = door.accept()[0]
    kept.append(caller)
    if sys.argv[1]:
        caller.recv(4096); caller.sendall(sys.argv[1].encode()); caller.close()
"""
SILENT, BROKEN = "", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nsorry"


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """It hangs: SIGSTOP."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def in_time(ray: RayCluster, dashboard: str = "") -> Diagnosis:
    """The judgment of the job that runs, with the time that it may take."""
    context, began = real.context_of(ray, "long"), time.monotonic()
    if dashboard:
        other = context.fleet.ray.model_copy(update={"dashboard": dashboard})  # type: ignore[union-attr]
        context = replace(context, fleet=context.fleet.model_copy(update={"ray": other}))
    found = diagnose(gather_ray_job(context), Limits(**load_runbook("ray-job").limit_values()))
    took = time.monotonic() - began
    print(f"{took:.1f} s: {found.headline}")
    assert took < IN_TIME_S
    return found


def only(found: Diagnosis, slug: str, *plans: str) -> str:
    """That cause alone, confirmed, and nothing to be done but these plans; its evidence."""
    assert real.confirmed(found) == [c.slug for c in found.causes] == [slug], found
    assert tuple(p.name for p in found.plans) == plans
    return " | ".join(found.causes[0].evidence)


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with ray_cluster() as found:
        found.worker(3)
        submit(found, "long", "sleep", "600")
        wait_status(found, "long", "RUNNING")
        yield found


def test_a_gcs_that_hangs(ray: RayCluster, rig: Rig, tmp_path: Path) -> None:
    before = raylets(ray)
    world = engine_world(ray, rig, tmp_path, f"http://{HEAD}:28265")
    with stopped(ray.process("gcs_server")):
        words = only(in_time(ray), "head-stuck", NAME)
        assert "does not answer" in words
        assert "kill -CONT" in words
        began = time.monotonic()
        assert outcome(world.run("diagnose", options={"job": "long"})) == "sick"
        assert time.monotonic() - began < 60
        assert world.report()["acts"] == []
    assert raylets(ray) == before
    assert status_of(ray, "long") == "RUNNING"
    assert in_time(ray).state is State.HEALTHY, "by itself, once it goes on"


def test_a_dashboard_that_hangs(ray: RayCluster) -> None:
    with stopped(ray.process("dashboard/dashboard.py")):
        assert "kill -CONT" in only(in_time(ray), "dashboard-down", NAME)
    assert in_time(ray).state is State.HEALTHY


@pytest.mark.parametrize(("text", "words"), [(SILENT, "accepts"), (BROKEN, "500 Internal Server Error")])
def test_a_dashboard_that_accepts_and_is_useless(ray: RayCluster, text: str, words: str) -> None:
    argv = [*ray.inside, sys.executable, "-c", DUMB, text]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as dumb:
        assert dumb.stdout is not None
        dumb.stdout.readline()
        assert words in only(in_time(ray, f"http://{HEAD}:29999"), "dashboard-down")
        dumb.kill()


def test_a_raylet_that_hangs(ray: RayCluster) -> None:
    """The head gives it up; a second one beside it would be worse."""
    pid = raylets(ray)[0]
    with stopped(pid):
        end = time.monotonic() + 60
        while "DEAD" not in states(ray):
            assert time.monotonic() < end
            time.sleep(0.5)
        found = in_time(ray)
        assert "raylet-stuck" in real.confirmed(found)
        assert found.plans == ()


def states(ray: RayCluster) -> list[str]:
    """What the head says of its nodes."""
    rows = json.loads(ray.run("curl", "-s", f"{DASHBOARD}/api/v0/nodes?detail=1").stdout)["data"]["result"]["result"]
    return [r["state"] for r in rows]


def test_only_the_dashboard_is_gone_then_the_whole_head(ray: RayCluster) -> None:
    """Under `--block` the end of any part ends the head, so that command is held first."""
    with stopped(ray.processes[2].pid):
        os.kill(ray.process("dashboard/dashboard.py"), signal.SIGKILL)
        assert "GCS at 127.0.0.2:26379 answers" in only(in_time(ray), "dashboard-down")
        os.kill(ray.process("gcs_server"), signal.SIGKILL)
        time.sleep(1)
        assert "no gcs_server runs there" in only(in_time(ray), "head-gone")
