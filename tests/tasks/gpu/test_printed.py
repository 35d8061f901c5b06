"""The commands of a report, pasted into a shell, end, start and mark what they name, and nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import H100, StubGpu, read_state
from deployments.lab.leader import LabLeader
from runbooks.core.fleet import Job, Leader
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Step
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis
from runbooks.gpu import plans
from runbooks.gpu.diagnose import Limits, diagnose
from runbooks.gpu.evidence import KernelEvent
from tests.support.docker_engine import Engine, docker_engine
from tests.support.gpu_node import JOB, context, gather, job, state, tagged, wait_state
from tests.support.printed import by_hand
from tests.support.waiting import until
from tests.tasks.container.test_restart import start

LIMITS = load_runbook("zombie-gpu").limit_values({"window_s": 0.6, "samples": 4})


def judged(driver: StubDriver, jobs: tuple[Job, ...], leader: Leader | None = None) -> Diagnosis:
    """The verdict on this machine with the driver's stub, which was looked at a quarter of an hour ago, too."""
    first = gather(context(driver, jobs=jobs, leader=leader))
    then = first.model_copy(update={"taken_at": first.taken_at - timedelta(minutes=15)})
    earlier = {"id": "r", "evidence": then.model_dump(mode="json")}
    return diagnose(gather(context(driver, jobs=jobs, leader=leader, earlier=earlier)), Limits(**LIMITS))


@contextmanager
def orphan(tag: str) -> Iterator[int]:
    """The pid of a stopped job process whose starter is gone."""
    done = subprocess.run(
        ["sh", "-c", f"setsid {sys.executable} {JOB} sleep --tag {tagged(tag)} >/dev/null 2>&1 </dev/null & echo $!"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    pid = int(done.stdout)
    try:
        wait_state(pid, "S")
        os.kill(pid, signal.SIGSTOP)
        wait_state(pid, "T")
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def step_of(found: Diagnosis, kind: str) -> Step:
    steps = [s for p in found.plans for s in p.steps if s.kind == kind]
    assert steps, found.model_dump_json(indent=1)
    return steps[0]


def test_a_stopped_process_is_ended(driver: StubDriver) -> None:
    with orphan("typed") as pid, orphan("beside") as other:
        driver.show(holding(pid))
        step = step_of(judged(driver, (job("typed"),)), "terminate-processes")
        assert [x["pid"] for x in step.args["processes"]] == [pid]
        quick = tuple("sleep 0.2" if c.startswith("sleep") else c for c in step.commands)
        elsewhere = tuple(c.replace(f"/proc/{pid}/", f"/proc/{other}/").replace(f" {pid}", f" {other}") for c in quick)
        by_hand([step.model_copy(update={"commands": elsewhere})])
        assert state(other) == "T", "a process with another start time is not touched"
        by_hand([step.model_copy(update={"commands": quick})])
        wait_state(pid, "Z-")
        driver.show(StubGpu())
        assert not judged(driver, (job("typed"),)).wrong


def test_a_job_is_started_and_stays(driver: StubDriver, tmp_path: Path) -> None:
    script, said = tmp_path / "start.sh", tmp_path / "said"
    script.write_text(f"#!/bin/sh\necho $$ > {said}\nexec sleep 60\n")
    script.chmod(0o755)
    with orphan("again") as old:
        driver.show(holding(old))
        step = step_of(judged(driver, (job("again", restart=(str(script),)),)), "restart-job")
    began = time.monotonic()
    assert by_hand([step]).returncode == 0
    assert time.monotonic() - began < 30, "the shell is free again"
    until(lambda: said.exists() and bool(said.read_text().strip()), 10, "the job's first word")
    pid = int(said.read_text())
    try:
        assert os.getsid(pid) == pid
        assert state(pid) in "SR"
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_node_is_marked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A driver that hangs cannot be had here: the judgment is that of its situation, the mark is real."""
    from tests.runbooks.every import situations

    mark = tmp_path / "marks" / "quarantine.json"
    monkeypatch.setattr(plans, "QUARANTINE", str(mark))
    case = next(s for s in situations() if s.title == "devices:the driver says that a GPU is lost")
    step = step_of(case.judge(case.evidence), "quarantine-node")  # judged anew, and kept for nobody
    assert step.args["path"] == str(mark)
    assert by_hand([step]).returncode == 0
    assert json.loads(mark.read_text())["reason"] == step.args["reason"]
    mark.write_text("somebody else's")
    assert by_hand([step]).returncode != 0
    assert mark.read_text() == "somebody else's"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


def test_a_container_is_restarted(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost devices cannot be had here: the judgment is that of its situation, the container and its restart are real."""
    from tests.runbooks.every import situations

    (tmp_path / "docker").write_text("#!/bin/sh\nexec " + " ".join(engine.argv) + ' "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    title = "devices:seen from the host, a container lost its devices and nothing in it works"
    step = step_of(next(s for s in situations() if s.title == title).judge(), "restart-container")
    box = start(engine, "typed", "--stop-timeout", "1")
    before = engine.inspect("typed")["State"]["Pid"]
    commands = tuple(c.replace(step.args["container"], box) for c in step.commands)
    done = by_hand([step.model_copy(update={"commands": commands})], env={"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin"})
    assert done.returncode == 0, done.stderr
    after = engine.inspect("typed")
    assert after["Id"] == box
    assert after["State"]["Pid"] != before


def test_the_leaders_count_goes_to_0(driver: StubDriver) -> None:
    with LabLeader(peers={"node-a": {"selfplay_jobs": 3}, "node-b": {"selfplay_jobs": 2}}) as lab:
        leader = Leader(url=lab.url, timeout_s=2)
        with orphan("counted") as pid:
            driver.show(holding(pid))
            step = step_of(judged(driver, (job("counted"),), leader), "reset-node-jobs")
        assert by_hand([step]).returncode == 0
        assert (lab.peers["node-a"]["selfplay_jobs"], lab.peers["node-b"]["selfplay_jobs"]) == (0, 2)


def asks_for_a_reset(driver: StubDriver) -> Diagnosis:
    """The verdict on this machine with an Xid 119 in its kernel log; the GPU and what it asks for are the driver's."""
    seen = gather(context(driver))
    at = str(H100["bus_id"])
    text = f"NVRM: Xid (PCI:{at}): 119, pid=1, name=python3, Timeout"
    event = KernelEvent(at_s=1.0, text=text, xid=119, bus_id=at, pid=1, process="python3")
    assert isinstance(seen.facts, Known)
    outside = seen.facts.model_copy(update={"value": seen.facts.value.model_copy(update={"in_container": False})})
    holders = Known[tuple[int, ...]](value=())
    log = Known[tuple[KernelEvent, ...]](value=(event,))
    return diagnose(seen.model_copy(update={"kernel": log, "facts": outside, "device_holders": holders}), Limits(**LIMITS))


def test_a_gpu_that_asks_for_it_is_reset(driver: StubDriver) -> None:
    """By its UUID, with the driver's own program; the event stays in the log and is history."""
    other = StubGpu(keys={**H100, "index": "1", "uuid": "GPU-beside", "bus_id": "00000000:99:00.0", "recovery": "1"})
    driver.show(StubGpu(keys={**H100, "recovery": "1"}), other)
    found = asks_for_a_reset(driver)
    assert [c.slug for c in found.wrong] == ["gpu-needs-reset"]
    step = step_of(found, "reset-gpu")
    env = {"PATH": f"{driver.smi.parent}:{os.environ['PATH']}"}
    gone = by_hand([step.model_copy(update={"commands": tuple(c.replace(H100["uuid"], "GPU-other") for c in step.commands)})], env=env)
    assert gone.returncode != 0
    assert read_state(driver.state).gpus[0].keys["recovery"] == "1"
    done = by_hand([step], env=env)
    assert done.returncode == 0, (step.commands, done.stdout, done.stderr)
    assert [g.keys["recovery"] for g in read_state(driver.state).gpus] == ["0", "1"]
    assert not asks_for_a_reset(driver).wrong
