"""Training that looks hung, or is: ranks, loaders and logs are real, GPUs are the stub driver's, outputs are the incidents' own."""

import time
from pathlib import Path

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import StubGpu
from runbooks.core.reading import Known, Unknown
from runbooks.core.verdict import Certainty, State
from runbooks.gpu.evidence import KernelEvent
from runbooks.gpu.parsers.kernel_log import parse_kernel_log
from tasks.remote.smi_reading import gpu_set
from tests.incidents.test_group import SHORT, SPINS, job, verdicts, waits_for_a_person
from tests.runbooks.gpu.build import evidence, judge
from tests.runbooks.gpu.test_situations import killed
from tests.support.gpu_fixtures import built, driver  # noqa: F401 - fixtures
from tests.support.gpu_node import context, gather, running
from tests.support.gpu_node import job as toy

BY_READERS = {"fed": "readers", "known": True}
NC01 = """\
Generating train split: 2230000 examples [29:59, 1466.92 examples/s][E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught \
collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800449 \
milliseconds before timing out.
Generating train split: 2231702 examples [30:00, 1577.98 examples/s][E ProcessGroupNCCL.cpp:489] Some NCCL operations have failed \
or timed out.
[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception
"""
T2_22 = """\
frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x1d2
frame #2: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x1554e9e16333 in /env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)
Exception raised from ncclCommWatchdog at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1521 (most recent call first):
"""
ZG03 = """\
|   0  Tesla M40 24GB      On   | 00000000:02:00.0 Off |                    0 |
| N/A   37C    P0   113W / 250W |    814MiB / 22945MiB |     78%      Default |
+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
"""
NONE = "|  No running processes found                                                 |\n"
ZG05 = """\
[41000.1] NVRM: GPU at PCI:0000:06:00: GPU-REDACTED
[41000.2] NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.
[41000.3] NVRM: GPU 0000:06:00.0: GPU has fallen off the bus.
[41000.4] NVRM: kgspRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.
"""


@pytest.mark.incident("ZG01", came="right", fed="readers", known=True)
def test_every_rank_spins_and_the_step_stands(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    d, pids = waits_for_a_person(driver, tmp_path, "wait", "wait", "wait", use=[SPINS] * 3)
    assert set(verdicts(d, pids).values()) == {("collective-spin", Certainty.CONFIRMED)}
    assert set(pids) <= set(killed(d)), "the whole job or nothing"
    words = " ".join(d.must_not)
    assert "alone: the other ranks" in words
    assert "because it reads 100 %" in words


@pytest.mark.incident("ZG01", came="right", fed="readers", known=True, twin="one rank saves meanwhile, for half an hour")
def test_every_rank_spins_but_the_one_that_saves(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    d, pids = waits_for_a_person(driver, tmp_path, "save", "wait", "wait", use=["0", SPINS, SPINS])
    assert {verdicts(d, pids)[p] for p in pids[1:]} == {("waits-for-its-mate", Certainty.CONFIRMED)}
    assert (d.state, d.plans) == (State.HEALTHY, ())


@pytest.mark.incident("NC01", came="right", fed="readers", known=True)
def test_rank_0_prepares_data_and_the_others_wait_in_a_barrier(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    d, pids = waits_for_a_person(driver, tmp_path, "prepare", "wait", "wait", use=["0", SPINS, SPINS])
    assert verdicts(d, pids)[pids[0]][0] in ("compiling-or-loading", "works-at-low-utilisation")
    assert {verdicts(d, pids)[p] for p in pids[1:]} == {("waits-for-its-mate", Certainty.CONFIRMED)}
    assert (d.state, d.plans) == (State.HEALTHY, ())


@pytest.mark.incident("T2-22", came="right", fed="readers", known=True)
def test_rank_0_evaluates_alone_and_the_others_wait(driver: StubDriver, tmp_path: Path) -> None:  # noqa: F811
    d, pids = waits_for_a_person(driver, tmp_path, "wait", "wait", "wait", use=["40,70,35,80", SPINS, SPINS])
    assert verdicts(d, pids)[pids[0]] == ("works-at-low-utilisation", Certainty.CONFIRMED)
    assert {verdicts(d, pids)[p] for p in pids[1:]} == {("waits-for-its-mate", Certainty.CONFIRMED)}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param(NC01, "nccl/timeout-while-one-rank-prepares", marks=pytest.mark.incident("NC01", came="right", **BY_READERS)),
        pytest.param(T2_22, "", marks=pytest.mark.incident("T2-22", came="open", **BY_READERS)),
    ],
)
def test_after_the_watchdog_has_ended_all(driver: StubDriver, tmp_path: Path, text: str, cause: str) -> None:  # noqa: F811
    log = tmp_path / "train.log"
    log.write_text("step 100, loss 2.1\n" + text)
    driver.show(StubGpu())
    mine = (job(tmp_path, progress=({"kind": "log", "path": str(log)},)),)
    d = judge(gather(context(driver, mine)))
    assert d.state is not State.HEALTHY
    assert "ProcessGroupNCCL" in d.headline
    assert not cause or cause in [f.category for f in d.findings]
    log.write_text("step 100, loss 2.1\nstep 101, loss 2.0\n")  # the twin: it ended well
    assert "unexplained" not in judge(gather(context(driver, mine))).headline


@pytest.mark.incident("ZG09", came="right", fed="readers", known=True)
def test_self_play_at_one_per_cent(driver: StubDriver) -> None:  # noqa: F811
    with running("burn", tag="zg09") as p:
        driver.show(holding(p.pid, mib=76000, sm="1,4,2,1"))
        d = judge(gather(context(driver, (toy("zg09", kind="selfplay"),))))
    assert verdicts(d, [p.pid]) == {p.pid: ("cpu-bound-by-design", Certainty.CONFIRMED)}
    assert (d.state, d.plans) == (State.HEALTHY, ())


@pytest.mark.incident("ZG09", came="right", fed="readers", known=True, twin="it plays no more")
def test_self_play_that_sleeps(driver: StubDriver) -> None:  # noqa: F811
    with running("sleep", tag="zg09b") as p:
        driver.show(holding(p.pid, mib=76000))
        mine = (toy("zg09b", kind="selfplay", nodes=("node-a",)),)
        first = gather(context(driver, mine))
        time.sleep(2)
        d = judge(gather(context(driver, mine, earlier={"id": "r", "evidence": first.model_dump(mode="json")})), **SHORT)
    assert verdicts(d, [p.pid]) == {p.pid: ("idle-process", Certainty.CONFIRMED)}


@pytest.mark.incident("ZG10", came="right", fed="readers", known=True)
def test_a_gpu_that_waits_for_its_loader(driver: StubDriver) -> None:  # noqa: F811
    with running("worker", tag="zg10") as p:
        driver.show(holding(p.pid, mib=76000))
        d = judge(gather(context(driver, (toy("zg10"),))))
    assert verdicts(d, [p.pid]) == {p.pid: ("starved-by-loader", Certainty.CONFIRMED)}
    assert (d.state, d.plans) == (State.HEALTHY, ())


def seen_from_inside(table: str) -> dict[str, object]:
    """What the probe brings back from that container."""
    names = "index, uuid, name, pci.bus_id, memory.total [MiB], memory.used [MiB], utilization.gpu [%], utilization.memory [%]"
    names += ", power.draw [W]"
    row = "0, GPU-5a3c1e90-0000-4000-8000-000000000001, Tesla M40 24GB, 00000000:02:00.0, 22945 MiB, 814 MiB, 78 %, 40 %, 113.00 W"
    queries = [{"at_s": i * 0.5, "out": f"{names}\n{row}\n"} for i in range(4)]
    return {"queries": queries, "apps": {"out": "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"}, "table": {"out": table}}


@pytest.mark.incident("ZG03", came="right", fed="readers", known=True)
def test_an_empty_table_in_a_container_is_not_nobody() -> None:
    found = gpu_set(seen_from_inside(ZG03), pci_count=1, container="docker")
    assert isinstance(found, Known)
    assert isinstance(found.value.gpus[0].processes, Unknown)
    inside = {"facts": {"in_container": True}, "unknown": {"device_holders": "denied"}}
    d = judge(evidence(inside).model_copy(update={"gpus": found}))
    assert d.state is State.CANNOT_TELL
    assert d.causes[0].slug == "shared-gpu"
    assert "reset GPU 0" in " ".join(d.must_not)


@pytest.mark.incident("ZG03", came="open", fed="readers", known=True, twin="on the host, and the table says in words that nobody is there")
def test_the_same_numbers_with_nobody_there() -> None:
    """Of this old card nobody has measured what its driver keeps for itself: what is held is named, and nothing rests on it."""
    found = gpu_set(seen_from_inside(ZG03 + NONE), pci_count=1, container="")
    assert isinstance(found, Known)
    assert isinstance(found.value.gpus[0].processes, Known)
    d = judge(evidence({}).model_copy(update={"gpus": found}))
    assert d.state is State.CANNOT_TELL
    assert [(c.slug, c.certainty) for c in d.wrong] == [("memory-without-holder", Certainty.POSSIBLE)]
    assert any("not known for this card" in line for line in d.causes[0].evidence)
    assert d.plans == ()


@pytest.mark.incident("ZG05", came="right", fed="readers", known=True)
@pytest.mark.parametrize("lines", [ZG05, "\n".join(reversed(ZG05.splitlines()))])
def test_fallen_off_the_bus(lines: str) -> None:
    events = tuple(
        KernelEvent(at_s=x.at_s, text=x.text, xid=x.xid, bus_id=x.bus_id, pid=x.pid, process=x.process) for x in parse_kernel_log(lines)
    )
    base = evidence({"unknown": {"gpus": "timed-out: nvidia-smi gave no answer in 10 s"}})
    d = judge(base.model_copy(update={"kernel": Known[tuple[KernelEvent, ...]](value=events)}))
    assert d.causes[0].slug == "gpu-off-the-bus"
    assert d.causes[0].certainty is Certainty.CONFIRMED
    assert "gpu-reset" in " ".join(d.must_not)
    booted = evidence({"facts": {"uptime_s": 300.0}}).model_copy(update={"kernel": Known[tuple[KernelEvent, ...]](value=events)})
    assert judge(booted).state is State.HEALTHY, "the twin: the machine was booted since, and its GPU answers"


@pytest.mark.incident("ZG07", came="right", fed="evidence", known=True)
@pytest.mark.parametrize("state", ["D", "Z"])
def test_state_d_is_no_zombie(state: str) -> None:
    tools = [(935, "/usr/bin/nvidia-smi"), (953, "/usr/bin/nvidia-persistenced --user nvidia-persistenced")]
    world = {
        "unknown": {"gpus": "timed-out: nvidia-smi hangs in state D (pid 935)"},
        "processes": [{"pid": pid, "ppid": 1, "state": state, "command": command, "age_s": 90000} for pid, command in tools],
        "earlier": {"ago_s": 900, "processes": {pid: {"state": state} for pid, _ in tools}},
    }
    d = judge(evidence(world))
    slugs = {c.slug for c in d.wrong}
    assert slugs == ({"driver-stuck"} if state == "D" else {"defunct-unreaped"}), "the twin: really dead"
    assert d.plans == ()

