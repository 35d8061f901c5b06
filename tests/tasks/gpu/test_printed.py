"""The commands of a report, pasted into a shell, end, start and mark what they name, and nothing else."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import H100, StubGpu, read_state
from deployments.lab.leader import LabLeader
from runbooks.core.fleet import Job, Leader
from runbooks.core.knowledge import load_runbook
from runbooks.core.node_basics import remarks
from runbooks.core.plan import Step
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis
from runbooks.gpu import plans
from runbooks.gpu.diagnose import Limits, diagnose
from runbooks.gpu.evidence import Evidence, KernelEvent
from tasks.remote import node_basics
from tasks.remote.node_basics import read_basics
from tasks.transport.local import LocalHost
from tests.support.docker_engine import Engine, docker_engine
from tests.support.gpu_node import JOB, context, gather, job, state, tagged, wait_state
from tests.support.need import need_program
from tests.support.printed import by_hand
from tests.support.waiting import until
from tests.tasks.container.test_restart import start

LIMITS = load_runbook("zombie-gpu").limit_values({"window_s": 0.6, "samples": 4})


def judged(driver: StubDriver, jobs: tuple[Job, ...], leader: Leader | None = None) -> Diagnosis:
    """The verdict on this machine with the driver's stub, which was looked at a quarter of an hour ago, too."""
    first = gather(context(driver, jobs=jobs, leader=leader))
    then = first.model_copy(update={"taken_at": first.taken_at - timedelta(minutes=15)})
    earlier = {"id": "r", "evidence": then.model_dump(mode="json")}
    return diagnose(_long_up(gather(context(driver, jobs=jobs, leader=leader, earlier=earlier))), Limits(**LIMITS))


def _long_up(found: Evidence) -> Evidence:
    """As on a machine that has been up for a day: nothing is compared with a reading from before the machine's start."""
    assert isinstance(found.facts, Known)
    facts = found.facts.model_copy(update={"value": found.facts.value.model_copy(update={"uptime_s": 86400.0})})
    return found.model_copy(update={"facts": facts})


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


def test_a_stopped_process_is_ended(driver: StubDriver, tmp_path: Path) -> None:
    """As printed; only that `sleep`, between the two signals, is a program that takes less."""
    (tmp_path / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.2\n")
    (tmp_path / "sleep").chmod(0o755)
    quick = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with orphan("typed") as pid, orphan("beside") as other:
        driver.show(holding(pid))
        step = step_of(judged(driver, (job("typed"),)), "terminate-processes")
        assert [x["pid"] for x in step.args["processes"]] == [pid]
        elsewhere = tuple(c.replace(f"/proc/{pid}/", f"/proc/{other}/").replace(f" {pid}", f" {other}") for c in step.commands)
        by_hand([step.model_copy(update={"commands": elsewhere})], env=quick)
        assert state(other) == "T", "a process with another start time is not touched"
        by_hand([step], env=quick)
        wait_state(pid, "Z-")
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


def from_outside(driver: StubDriver, **more: Any) -> Diagnosis:
    """The verdict on this machine as on one that is no container itself."""
    seen = gather(context(driver))
    assert isinstance(seen.facts, Known)
    facts = seen.facts.value.model_copy(update={"in_container": False})
    return diagnose(seen.model_copy(update={"facts": Known(value=facts), **more}), Limits(**LIMITS))


def test_a_node_is_marked_once(driver: StubDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who looks at the node then is told, as the nightly and `doctor` look."""
    mark = tmp_path / "marks" / "quarantine.json"
    monkeypatch.setattr(plans, "QUARANTINE", str(mark))
    monkeypatch.setattr(node_basics, "QUARANTINE", str(mark))
    driver.show(StubGpu(), StubGpu(keys={**H100, "index": "1", "uuid": "GPU-beside", "bus_id": "00000000:99:00.0", "mode": "lost"}))
    found = from_outside(driver)
    assert [c.slug for c in found.wrong] == ["gpu-off-the-bus"]
    step = step_of(found, "quarantine-node")
    assert step.args["path"] == str(mark)
    assert not read_basics(LocalHost("node-a")).quarantined
    assert by_hand([step]).returncode == 0
    seen = read_basics(LocalHost("node-a"))
    assert seen.quarantined
    assert step.args["reason"] in remarks(seen)[-1].says
    mark.write_text("somebody else's")
    assert by_hand([step]).returncode != 0
    assert mark.read_text() == "somebody else's"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Its runtime `nvidia` is the usual one: containers are given GPUs by name only."""
    with docker_engine(more=(f"--add-runtime=nvidia={need_program('runc', 'runc')}",)) as found:
        yield found


GIVEN = ("--runtime=nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=all", "--device", "/dev/null:/dev/nvidia0", "--stop-timeout", "1")
SMI = """#!/bin/sh
(: </dev/nvidia0) 2>/dev/null && echo 'GPU 0: NVIDIA H100 80GB HBM3' && exit
echo 'Failed to initialize NVML: Unknown Error'; exit 255
"""


def test_a_container_is_restarted(engine: Engine, driver: StubDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lost its device file; its nvidia-smi is a script that opens that file."""
    for name, text in (("docker", "#!/bin/sh\nexec " + " ".join(engine.argv) + ' "$@"\n'), ("nvidia-smi", SMI)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    driver.show(StubGpu())
    box = start(engine, "typed", *GIVEN, "-v", f"{tmp_path}/nvidia-smi:/bin/nvidia-smi:ro")
    assert not from_outside(driver).wrong
    engine.run("exec", "typed", "rm", "/dev/nvidia0")
    before, found = engine.inspect("typed")["State"]["Pid"], from_outside(driver)
    assert [c.slug for c in found.wrong] == ["container-lost-devices"]
    done = by_hand([step_of(found, "restart-container")])
    assert done.returncode == 0, done.stderr
    after = engine.inspect("typed")
    assert (after["Id"], after["State"]["Pid"] != before) == (box, True)
    assert not from_outside(driver).wrong


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
    at = str(H100["bus_id"])
    text = f"NVRM: Xid (PCI:{at}): 119, pid=1, name=python3, Timeout"
    event = KernelEvent(at_s=1.0, text=text, xid=119, bus_id=at, pid=1, process="python3")
    log = Known[tuple[KernelEvent, ...]](value=(event,))
    return from_outside(driver, kernel=log, device_holders=Known[tuple[int, ...]](value=()))


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
