"""The H100 recordings from nvidia-smi's text to the verdict: a naive threshold calls work a zombie, this must not."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.gpu_set import Gpu, GpuProcess, GpuSample, GpuSet
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu.evidence import Earlier, EarlierProcess, Evidence, KernelEvent, Process, ProgressMark
from runbooks.gpu.parsers.kernel_log import parse_kernel_log
from tasks.remote.smi_reading import gpu_set
from tests.runbooks.gpu.build import AT, evidence, judge
from tests.runbooks.gpu.test_situations import killed

H100 = Path(__file__).parents[2] / "data" / "h100"
UUID = "GPU-5a3c1e90-0000-4000-8000-000000000001"
LATER_S = 900.0
DUTY: list[float] = next(
    values
    for name, values in json.loads((H100 / "observations.json").read_text(encoding="utf-8"))
    if name.startswith("duty util")
)
JOB = {"name": "train", "restart": ["/srv/job/start.sh"], "progress_configured": True}


def text(name: str) -> str:
    """A recording without the command line and exit code above it."""
    return "".join((H100 / f"{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True)[2:])


def by_smi(name: str, use: list[float] | None = None) -> GpuSet:
    """The recorded nvidia-smi outputs, parsed; `use`: the utilisation sampled over time in the same run."""
    query = text(f"gpu-{name}")
    found = re.search(r", (\d+) %, \d+ %", query)
    assert found is not None
    series = use or [float(found.group(1))] * 6
    outs = [re.sub(r", \d+ %, (\d+) %", rf", {u:.0f} %, \1 %", query, count=1) for u in series]
    got = {
        "queries": [{"at_s": i * 0.5, "out": out} for i, out in enumerate(outs)],
        "apps": {"out": text(f"apps-{name}")},
        "pmon": {"out": text(f"pmon-{name}")},
        "table": {"out": text(f"smi-{name}")},
    }
    answer = gpu_set(got, pci_count=1, container="")
    assert isinstance(answer, Known)
    return answer.value


def by_nvml(name: str, use: list[float] | None = None) -> GpuSet:
    """The recorded NVML answers, the driver's stale buffer of process utilisation among them."""
    raw = json.loads((H100 / f"nvml-{name}.json").read_text(encoding="utf-8"))
    get = {k: v.get("v") for k, v in raw.items()}
    memory, rates = get["nvmlDeviceGetMemoryInfo"], get["nvmlDeviceGetUtilizationRates"]
    buffer = get["nvmlDeviceGetProcessUtilization[0]"] or []
    rows = [
        GpuProcess(
            pid=p["pid"],
            used_bytes=p["usedGpuMemory"],
            sm_percent=tuple(b["smUtil"] for b in buffer if b["pid"] == p["pid"]),
        )
        for p in get["nvmlDeviceGetComputeRunningProcesses"]
    ]
    power = get["nvmlDeviceGetPowerUsage"] / 1000
    samples = [
        GpuSample(at_s=i * 0.5, sm_percent=u, memory_percent=rates["memory"], power_w=power)
        for i, u in enumerate(use or [rates["gpu"]] * 6)
    ]
    gpu = Gpu(
        index=0, uuid=get["nvmlDeviceGetUUID"], name=get["nvmlDeviceGetName"], bus_id="00000000:00:06.0",
        memory_total_bytes=memory["total"], memory_used_bytes=memory["used"], samples=tuple(samples),
        processes=Known[tuple[GpuProcess, ...]](value=tuple(rows)), mig=False,
    )  # fmt: skip
    return GpuSet(gpus=(gpu,), pci_count=1)


def process(name: str, cpu_window_s: float, age_s: float | None = None) -> Process:
    """The recorded ps line of the process on the GPU."""
    line = next(x for x in text(f"ps-{name}").splitlines() if "train_selfplay" in x)
    pid, ppid, pgid, sid, stat, age, cpu, _, _, user, command = line.split(None, 10)
    hours, minutes, seconds = map(int, cpu.split(":"))
    return Process(
        pid=int(pid), start_ticks=4000 + int(pid), age_s=age_s or float(age), state=stat[0], states=(stat[0],) * 6,
        ppid=int(ppid), pgid=int(pgid), sid=int(sid), uid=0, user=user, command=command, cgroup="/", job="train",
        nvidia_fds=("/dev/nvidia0",), cpu_s=3600.0 * hours + 60 * minutes + seconds, cpu_window_s=cpu_window_s,
        read_bytes=5000, written_bytes=100, io_window_bytes=0, sockets_moved_bytes=0, run={},
    )  # fmt: skip


def node(gpus: GpuSet, *found: Process, later: bool = False, moved: bool = False) -> Evidence:
    """The node of the recording; `later`: what an earlier reading, 15 minutes before, had seen of the same."""
    base = evidence({"jobs": [JOB], "window_s": 12.0})
    mark = ProgressMark(job="train", kind="files", path="/srv/job/steps.log", before=70, after=71 if moved else 70,
                        unit="bytes", changed_s_ago=1.0 if moved else 5000.0)  # fmt: skip
    change: dict[str, Any] = {
        "gpus": Known[GpuSet](value=gpus),
        "processes": Known[tuple[Process, ...]](value=found),
        "device_holders": Known[tuple[int, ...]](value=tuple(p.pid for p in found)),
        "progress": Known[tuple[ProgressMark, ...]](value=(mark,)),
    }
    if later:
        change["earlier"] = Known[Earlier](value=earlier(gpus, found, mark))
    return base.model_copy(update=change)


def earlier(gpus: GpuSet, found: tuple[Process, ...], mark: ProgressMark) -> Earlier:
    """The same counters 15 minutes before."""
    rows = (
        EarlierProcess(pid=p.pid, start_ticks=p.start_ticks, state=p.state, cpu_s=p.cpu_s, io_bytes=5100) for p in found
    )
    use = {g.uuid: sum(s.sm_percent for s in g.samples) / len(g.samples) for g in gpus.gpus}
    at = AT - timedelta(seconds=LATER_S)
    return Earlier(
        taken_at=at, boot_id="boot-1", report="r-0", processes=tuple(rows), progress=(mark,), gpu_sm_percent=use
    )


def wrong(d: Diagnosis) -> list[tuple[str, Certainty]]:
    """Faults, in order."""
    return [(c.slug, c.certainty) for c in d.wrong]


READERS = pytest.mark.parametrize("read", [by_smi, by_nvml])


@READERS
def test_a_naive_threshold_calls_work_a_zombie_and_this_does_not(read: Any) -> None:
    """All 24 samples of the working job are below 5 %, 17 are 0 %: judged by each single one, and by all."""
    assert len(DUTY) == 24
    assert sum(u < 5 for u in DUTY) == 24  # what the naive rule flags
    assert sum(u == 0 for u in DUTY) == 17
    mine = process("duty", cpu_window_s=0.629 * 12, age_s=5000)
    for use in ([u] * 6 for u in DUTY):
        assert wrong(judge(node(read("duty", use), mine, later=True, moved=True))) == []
    d = judge(node(read("duty", DUTY), mine, later=True))  # even with a progress file that stands still
    assert (d.state, wrong(d), d.plans) == (State.HEALTHY, [], ())
    assert "24 of 24 samples (17 of them 0 %)" in " ".join(d.causes[0].evidence)
    assert any("do not kill pid 522" in m for m in d.must_not)


@READERS
def test_stopped_holder_is_ended_with_exactly_its_memory(read: Any) -> None:
    """hold-stopped: state T in ps, 8.5 GiB on the GPU."""
    name = "hold-stopped"
    d = judge(node(read(name), process(name, 0.0)))
    assert wrong(d) == [("stopped", Certainty.CONFIRMED)]
    assert killed(d) == [460]
    (step, restart) = d.plans[-1].steps
    assert step.args["expect_freed_bytes"] == (9133096960 if read is by_nvml else 8710 << 20)
    assert step.args["gpu_uuids"] == [UUID]
    assert restart.args == {"job": "train", "argv": ["/srv/job/start.sh"]}


@READERS
def test_orphan(read: Any) -> None:
    """PPID 1, 4 s old in the recording: too young to say; the same a quarter of an hour later is an idle orphan."""
    young = judge(node(read("orphan"), process("orphan", 0.0)))
    assert (young.state, wrong(young), young.plans) == (State.HEALTHY, [], ())
    assert young.causes[0].slug == "warming-up"
    once = judge(node(read("orphan"), process("orphan", 0.0, age_s=5000)))
    assert (wrong(once), once.plans) == ([("orphan-idle", Certainty.POSSIBLE)], ())
    later = judge(node(read("orphan"), process("orphan", 0.0, age_s=5000), later=True))
    assert wrong(later) == [("orphan-idle", Certainty.CONFIRMED)]
    assert killed(later) == [654]


@READERS
def test_kernel_that_never_ends(read: Any) -> None:
    """devspin: 100 %, no memory traffic, flat 140 W of 700 W, steps stand still."""
    mine = process("devspin", cpu_window_s=12.0, age_s=5000)
    assert wrong(judge(node(read("devspin"), mine))) == [("device-spin", Certainty.LIKELY)]
    untold = judge(node(read("devspin"), mine, later=True))
    assert wrong(untold) == [("device-spin", Certainty.LIKELY)], "nobody wrote down which torch it ran"
    later = judge(node(read("devspin"), mine.model_copy(update={"torch": "2.8.0+cu128"}), later=True))
    assert wrong(later) == [("device-spin", Certainty.CONFIRMED)]
    assert killed(later) == [610]


def test_real_work_at_99_per_cent() -> None:
    """spin: 99 % with 25 % memory traffic and 696 W is work."""
    d = judge(node(by_smi("spin"), process("spin", cpu_window_s=12.0, age_s=5000), later=True, moved=True))
    assert (d.state, wrong(d)) == (State.HEALTHY, [])


def test_sleeping_holder() -> None:
    """hold-sleep: POSSIBLE in one window, CONFIRMED with an earlier reading that covers the limit."""
    mine = process("hold-sleep", 0.0, age_s=5000)
    assert wrong(judge(node(by_smi("hold-sleep"), mine))) == [("idle-process", Certainty.POSSIBLE)]
    assert wrong(judge(node(by_smi("hold-sleep"), mine, later=True))) == [("idle-process", Certainty.CONFIRMED)]


@pytest.mark.parametrize("gpus", [by_smi("idle"), by_nvml("idle"), by_smi("after"), by_nvml("defunct-unreaped")])
def test_idle_card_holds_nothing(gpus: GpuSet) -> None:
    """The 480 MiB that NVML counts on an idle H100 are the driver's, and a defunct process keeps nothing."""
    d = judge(node(gpus))
    assert (d.state, wrong(d)) == (State.HEALTHY, [])


def test_recorded_kernel_log_is_history() -> None:
    """Xid 31 of pid 697, which has ended."""
    (line,) = parse_kernel_log(text("dmesg-nv"))
    event = KernelEvent(
        at_s=line.at_s, text=line.text, xid=line.xid, bus_id=line.bus_id, pid=line.pid, process="python3"
    )
    base = node(by_smi("idle")).model_copy(update={"kernel": Known[tuple[KernelEvent, ...]](value=(event,))})
    d = judge(base)
    assert (d.state, wrong(d)) == (State.HEALTHY, [])
    assert d.causes[0].certainty is Certainty.RULED_OUT
