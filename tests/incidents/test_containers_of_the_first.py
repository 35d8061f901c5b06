"""Incidents of containers from the first collection: real containers, mounts and kills; the Ray head's from readings."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from runbooks.container.diagnose import Limits, diagnose
from runbooks.container.evidence import Evidence
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis, State
from tests.runbooks.container import test_situations as situations
from tests.support import fuse_mount
from tests.support.docker_engine import Engine, docker_engine
from tests.support.situations import merge
from tests.support.yaml_file import read_yaml
from tests.tasks.container.test_deaths import pids_of
from tests.tasks.container.world import World, confirmed

KUBERNETES = ("--label", "io.kubernetes.pod.name=app-0", "--label", "io.kubernetes.pod.namespace=default")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


def first(d: Diagnosis) -> str:
    return f"{d.causes[0].slug} {d.causes[0].certainty}" if d.causes else "none"


def killed(engine: Engine, *options: str) -> Diagnosis:
    name = f"box{uuid4().hex[:6]}"
    ident = engine.create(name, "sleep", "1000", options=options)
    os.kill(pids_of(engine, ident)[0], signal.SIGKILL)
    engine.wait_status(name, "exited")
    return World(engine, name).judge()


@pytest.mark.incident("CD01", came="open", fed="readers", known=True)
def test_137_under_an_orchestrator_is_no_memory(engine: Engine) -> None:
    """The probe's failure stands in the pod's events, which are the orchestrator's: named as what decides."""
    d = killed(engine, *KUBERNETES)
    assert first(d) == "killed-from-outside possible"
    assert "liveness probe" in str(d.causes[0].decides)
    assert not any(c.slug.startswith("oom") for c in d.causes)
    assert d.plans == ()


@pytest.mark.incident("CD01", came="right", fed="readers", known=True, twin="the engine's own health check failed and it was stopped")
def test_stopped_after_its_health_check_failed(engine: Engine) -> None:
    health = ("--health-cmd", "false", "--health-interval", "0.3s", "--health-retries", "2")
    engine.create("probed", "sleep", "1000", options=health)
    end = time.monotonic() + 20
    while engine.inspect("probed")["State"]["Health"]["Status"] != "unhealthy" and time.monotonic() < end:
        time.sleep(0.2)
    engine.run("stop", "-t", "1", "probed")
    assert first(World(engine, "probed").judge()) == "killed-by-probe likely"


@pytest.mark.incident("CD01", came="right", fed="readers", known=True, twin="the kernel killed it at its memory limit")
def test_a_kill_for_memory_is_one(engine: Engine) -> None:
    engine.create("hungry", "tail", "/dev/zero", options=("-m", "32m", *KUBERNETES))
    engine.wait_status("hungry", "exited")
    assert first(World(engine, "hungry").judge()) == "oom-container confirmed"


@pytest.mark.incident("CD04", came="right", fed="readers", known=True)
def test_the_mounts_process_died_under_a_running_container(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (pid, path, _):
        engine.create("gcs", "sleep", "infinity", options=("-v", f"{path}:/data"))
        world = World(engine, "gcs", match="sleep")
        assert world.judge().state is State.HEALTHY
        os.kill(pid, signal.SIGKILL)
        d = world.judge()
        engine.run("rm", "-f", "gcs")
    assert first(d) == "stale-fuse confirmed"
    assert any("mkdir or rm -rf below a mount path" in x for x in d.must_not)
    assert not any(c.slug.startswith("oom") for c in d.causes)


@pytest.mark.incident("CD06", came="right", fed="readers", known=True)
def test_killed_for_memory_and_its_mount_is_stale(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (pid, path, _):
        engine.create("two", "tail", "/dev/zero", options=("-m", "32m", "-v", f"{path}:/data"))
        engine.wait_status("two", "exited")
        os.kill(pid, signal.SIGKILL)
        d = World(engine, "two").judge()
        engine.run("start", "two", check=False)  # in place: it can never work
        refused = engine.inspect("two")["State"]["Error"]  # some engines start it all the same, and it dies again
        again = World(engine, "two").judge()
        engine.run("rm", "-f", "two")
    assert confirmed(d)[:2] == ["stale-fuse", "oom-container"], d.headline
    assert any("restart the container in place" in x for x in d.must_not)
    assert first(again) == "stale-fuse confirmed", again.headline
    assert "mount-point-in-the-way" not in [c.slug for c in again.causes], "what stands there is the mount itself"
    assert not refused or "could not start it" in str([c.evidence for c in again.causes])
    assert {"oom-container", "oom-child"} & {c.slug for c in again.causes}, "the kernel's line is not forgotten for the start"


@pytest.mark.incident("CD06", came="right", fed="readers", known=True, twin="the mount lives")
def test_killed_for_memory_alone(engine: Engine, tmp_path: Path) -> None:
    with fuse_mount.mounted(tmp_path) as (_, path, _):
        engine.create("one", "tail", "/dev/zero", options=("-m", "32m", "-v", f"{path}:/data"))
        engine.wait_status("one", "exited")
        d = World(engine, "one").judge()
        engine.run("rm", "-f", "one")
    assert confirmed(d) == ["oom-container"]


@pytest.mark.incident("CD10", came="right", fed="readers", known=True)
def test_a_stop_that_it_ignored_is_a_stop(engine: Engine) -> None:
    engine.create("stubborn", "sh", "-c", "trap '' TERM; while :; do sleep 1; done", options=("--restart", "always"))
    engine.run("stop", "-t", "1", "stubborn")
    assert engine.wait_status("stubborn", "exited")["State"]["ExitCode"] == 137
    d = World(engine, "stubborn").judge()
    assert (first(d), d.state, d.plans) == ("stopped-on-purpose confirmed", State.HEALTHY, ())


@pytest.mark.incident("CD10", came="right", fed="readers", known=True, twin="killed from the host, without a request")
def test_a_kill_without_a_request(engine: Engine) -> None:
    d = killed(engine)
    assert first(d).startswith("killed-from-outside ")
    assert d.state is State.UNHEALTHY


def replaced(head_started: str) -> Diagnosis:
    doc = read_yaml(situations.HERE / "cd08-head-replaced.yaml")
    doc["change"]["ray"]["value"]["nodes"][0]["started_at"] = head_started
    evidence = Evidence.model_validate(merge(situations.BASE, doc["change"]))
    return diagnose(evidence, Limits(**load_runbook("container-death").limit_values()))


@pytest.mark.incident("CD08", came="right", fed="evidence", known=True)
def test_a_new_head_and_an_old_worker() -> None:
    assert first(replaced("2026-03-02T11:30:00Z")).startswith("head-replaced ")


@pytest.mark.incident("CD08", came="right", fed="evidence", known=True, twin="the head is older than its worker")
def test_an_old_head_and_a_worker_that_does_not_answer() -> None:
    assert first(replaced("2026-03-02T09:30:00Z")).startswith("application-stuck ")
