"""The whole evidence of a node: one window, the earlier reading, over real SSH, and with parts missing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.leader import LabLeader
from deployments.lab.sshd import Sshd
from runbooks.core.fleet import Fleet, Leader, Progress, ProgressKind
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.gpu.evidence import ContainerGpu, Evidence, Inside, Process
from tasks.context import Context
from tasks.gpu.processes import ProcessReadings
from tasks.gpu.read import inside_of
from tasks.transport.base import TransportError
from tasks.transport.ssh import SshHost
from tests.support.gpu_node import BOOT, LIMITS, context, gather, job, only_gpu, running
from tests.support.need import need_program


def test_everything_of_one_node(driver: StubDriver, tmp_path: Path) -> None:
    target = tmp_path / "step.pt"
    one = job(
        "g", progress=(Progress(kind=ProgressKind.FILES, path=str(target)),), nodes=("node-a",), restart=("true",)
    )
    with running("checkpoint", str(target), tag="g") as p, LabLeader(peers={"node-a": {"selfplay_jobs": 1}}) as lab:
        driver.show(holding(p.pid))
        found = gather(context(driver, jobs=(one,), leader=Leader(url=lab.url)))
    assert found.window_s == pytest.approx(LIMITS["window_s"], abs=0.6)
    assert isinstance(found.processes, Known)
    mine = next(q for q in found.processes.value if q.pid == p.pid)
    assert mine.job == "selfplay"
    assert mine.writing == (str(target),)
    assert isinstance(found.progress, Known)
    assert found.progress.value[0].after > found.progress.value[0].before
    assert isinstance(found.leader, Known)
    assert isinstance(found.earlier, Absent)
    assert isinstance(found.facts, Known)
    assert found.jobs[0].single_node
    assert found.jobs[0].progress_configured
    assert Evidence.model_validate_json(found.model_dump_json()) == found


def test_the_earlier_report_bridges_minutes(driver: StubDriver) -> None:
    with running("sleep", tag="e") as p:
        driver.show(holding(p.pid))
        first = gather(context(driver, jobs=(job("e"),)))
        report = {"id": "run-1", "evidence": json.loads(first.model_dump_json())}
        second = gather(context(driver, jobs=(job("e"),), earlier=report))
    assert isinstance(second.earlier, Known)
    old = second.earlier.value
    assert (old.boot_id, old.report, old.taken_at) == (BOOT, "run-1", first.taken_at)
    mine = next(q for q in old.processes if q.pid == p.pid)
    assert mine.cpu_s is not None
    assert mine.io_bytes is not None
    assert old.gpu_used_bytes == {only_gpu(first).uuid: only_gpu(first).memory_used_bytes}
    assert old.gpu_power_w[only_gpu(first).uuid] == pytest.approx(136.48)


@pytest.mark.parametrize("report", [{}, {"evidence": {"node": 5}}, {"evidence": {"unknown_field": 1}}])
def test_an_unreadable_earlier_report_is_unknown(report: dict[str, Any]) -> None:
    found = gather(context(earlier=report)).earlier
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.UNPARSABLE


def test_over_real_ssh(driver: StubDriver, tmp_path: Path) -> None:
    need_program("sshd", "openssh-server")
    with Sshd(tmp_path, "node-a") as sshd, running("sleep", tag="ssh", stopped=True) as p:
        driver.show(holding(p.pid))
        node = sshd.node(labels=driver.labels())
        host = SshHost(node)
        fleet = Fleet(name="t", nodes=(node,), jobs=(job("ssh"),))
        try:
            found = gather(Context(fleet=fleet, target=node.name, open_host=lambda _: host, limits=LIMITS))
        finally:
            host.close()
        assert isinstance(found.processes, Known)
        mine = next(q for q in found.processes.value if q.pid == p.pid)
        assert (mine.state, mine.job) == ("T", "selfplay")
        assert {q.pid for q in found.processes.value if q.job} == {p.pid}
        gpu = only_gpu(found)
        assert isinstance(gpu.processes, Known)
        assert gpu.processes.value[0].pid == p.pid
        assert len(gpu.samples) == LIMITS["samples"]
        assert len(sshd.sessions()) <= 1  # one connection


class Unreachable:
    """A node that never answers."""

    name, notes = "node-a", ()

    def run(self, *_args: Any, **_more: Any) -> Any:
        raise TransportError(UnknownReason.UNREACHABLE, "no route to host")

    def close(self) -> None:
        """Nothing to end."""


def test_an_unreachable_node_is_unknown_everywhere() -> None:
    found = gather(context(host=Unreachable()))
    for name in ("facts", "gpus", "processes", "device_holders", "kernel", "containers"):
        reading = getattr(found, name)
        assert isinstance(reading, Unknown), name
        assert reading.reason is UnknownReason.UNREACHABLE, name


def test_of_which_containers_everybody_is_told() -> None:
    """Those that a process of a job or on a GPU is in, and those that lost their GPUs; of others nothing is recorded."""
    p = {"start_ticks": 7, "age_s": 1.0, "state": "S", "ppid": 1, "pgid": 5, "sid": 5, "uid": 0, "command": "python"}
    mine = Process(pid=5, container="a" * 64, **p)
    every = Known[tuple[Inside, ...]](value=tuple(Inside(container=c * 64, others=1) for c in "abcd"))
    no = Unknown(reason=UnknownReason.NOT_ASKED)
    look = ProcessReadings(facts=no, processes=Known[tuple[Process, ...]](value=(mine,)), holders=no, window_s=1.0, inside=every)
    boxes = (ContainerGpu(container="b" * 64, nvml="Unknown Error"), ContainerGpu(container="c" * 64))
    found = inside_of(look, Known[tuple[ContainerGpu, ...]](value=boxes))
    assert isinstance(found, Known)
    assert [i.container[0] for i in found.value] == ["a", "b"]
    assert inside_of(replace(look, inside=no), Absent(proof="no Docker")) is no
