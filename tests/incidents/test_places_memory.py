# ruff: noqa: E501 - lines of logs as they are
"""Memory that ran out, rebuilt: a log, the kernel's words, /proc/meminfo and the driver's table are read by the product's own probes."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.memory.diagnose import diagnose
from runbooks.memory.limits import Limits
from tasks.context import Context
from tasks.memory.read import gather_memory_pressure
from tasks.transport.base import Host
from tasks.transport.local import LocalHost
from tests.support.pretend import PretendHost

VALUES = load_runbook("memory-pressure").limit_values()
RAW = re.compile(r"\b\d{7,}\b")  # bytes as a computer counts them
OM03 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; "
    "9.28 GiB free; 4.68 MiB cached)"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 79.18 GiB of which {free} is "
    "free. {who}Of the allocated memory {mine} is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated."
)
SPARK_LOG = (
    '{"level": "error", "event": "diffusion.memory: refusing oversized unified-memory load: \'flux.2-klein\' needs about 24 GB of memory '
    "for its weights, but only about 0 GB is usable on this device (of the 3 GB currently free, after reserving room for the operating "
    'system). ..."}'
)
SPARK_GPU = """\
index, uuid, name, pci.bus_id, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], memory.reserved [MiB]
0, GPU-5e2d3c1a-0000-4000-8000-000000000001, NVIDIA GB10, 0000000F:01:00.0, 0 %, 0 %, [N/A], [N/A], [N/A]
"""
H100_GPU = SPARK_GPU.replace("NVIDIA GB10", "NVIDIA H100 80GB HBM3").replace("[N/A], [N/A], [N/A]", "100 MiB, 81559 MiB, 500 MiB")
GROUP = "/system.slice/docker-27ebea4ac662838066a8227d34440c9f69ff5c40386beb637571df22911ed6e9.scope"
KILL = """\
[{at}] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[{at}] memory: usage 67108864kB, limit 67108864kB, failcnt 39
[{at}] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg={group},task_memcg={group},task=python3,pid=4242,uid=0
[{at}] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:90000000kB, anon-rss:61440000kB, file-rss:0kB, shmem-rss:0kB, UID:0
"""
HOST_KILL = """\
[{at}] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[{at}] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=x,mems_allowed=0,global_oom,task_memcg={group},task=python3,pid=4242,uid=0
[{at}] Out of memory: Killed process 4242 (python3) total-vm:90000000kB, anon-rss:61440000kB, file-rss:0kB, shmem-rss:0kB, UID:0
"""
OLD_KILL = """\
[{at}] python3 invoked oom-killer: gfp_mask=0x50, order=0, oom_score_adj=0
[{at}] Task in {group} killed as a result of limit of {group}
[{at}] memory: usage 67108864kB, limit 67108864kB, failcnt 39
[{at}] Memory cgroup out of memory: Kill process 4242 (python3) score 981 or sacrifice child
[{at}] Killed process 4242 (python3) total-vm:90000000kB, anon-rss:61440000kB, file-rss:0kB, shmem-rss:0kB
"""


def meminfo(total: float, free: float, available: float, cached: float) -> str:
    """/proc/meminfo, sizes in GiB."""
    rows = {"MemTotal": total, "MemFree": free, "MemAvailable": available, "Buffers": 0.1, "Cached": cached, "SwapFree": 0}
    return "".join(f"{name + ':':<16}{int(gib * (1 << 20)):>8} kB\n" for name, gib in rows.items())


def look(host: Host, at: datetime | None = None, **options: str) -> Diagnosis:
    """One run of the runbook: gathered by the product's readers and judged, now or `at` that time."""
    fleet = Fleet(nodes=(Node(name="node-a", host="192.0.2.1"),))
    context = Context(fleet=fleet, target="node-a", open_host=lambda _: host, limits=VALUES, options=dict(options))
    context = replace(context, now=lambda: at) if at else context
    seen = gather_memory_pressure(context)
    found = diagnose(type(seen).model_validate_json(seen.model_dump_json()), Limits(**VALUES))
    said = found.model_dump_json(exclude={"symptom"})
    assert not RAW.search(said), RAW.findall(said)
    return found


def machine(folder: Path, log: str = "", age_s: float = 0, kernel: str = "[    0.000001] Linux version 6.8.0\n", gpu: str = H100_GPU, memory: str = "", **options: str) -> Diagnosis:
    """A machine with that log, kernel log, GPU table and memory."""
    (folder / "train.log").write_text(log)
    os.utime(folder / "train.log", (time.time() - age_s,) * 2)
    apps = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    smi = f'#!/bin/sh\ncase "$*" in *query-compute-apps*) printf %s "{apps}";; *) cat {folder}/gpu.csv;; esac\n'
    (folder / "gpu.csv").write_text(gpu)
    files = {"/proc/meminfo": memory or meminfo(512, 300, 400, 100)}
    host = PretendHost("node-a", folder / "host", files, {"dmesg": kernel, "nvidia-smi": smi}, hidden=("/sys/fs/cgroup",))
    return look(host, None, log=str(folder / "train.log"), **options)


def slugs(found: Diagnosis) -> list[tuple[str, Certainty]]:
    return [(c.slug, c.certainty) for c in found.causes]


def now_since_boot(ago_s: float = 0) -> str:
    """The kernel log's stamp of a moment that long ago."""
    return f"{time.clock_gettime(time.CLOCK_MONOTONIC) - ago_s:.6f}"


@pytest.mark.incident("OM03", came="open", fed="readers", known=True)
def test_more_free_than_asked_for_is_no_lack_of_memory(tmp_path: Path) -> None:
    found = machine(tmp_path, OM03)
    assert found.state is State.CANNOT_TELL
    assert slugs(found) == [("numbers-contradict", Certainty.POSSIBLE)]
    assert "12.5 MiB were asked for and 9.3 GiB are free" in found.headline
    assert not any("batch" in x for x in found.do_now)
    assert any("batch" in x for x in found.must_not)


def test_options_that_decided_nothing_are_named(tmp_path: Path) -> None:
    """A batch size is given, and no change of the batch is advised."""
    found = machine(tmp_path, OM03, batch="8", gpus="4")
    assert any("batch, gpus" in x and "decided nothing" in x for x in found.unknowns)
    big = machine(tmp_path, NEW.format(tried="2.00 GiB", free="10.00 MiB", who="Process 812345 has 78.90 GiB memory in use. ", mine="77.00 GiB"), batch="8")
    assert not any("decided nothing" in x for x in big.unknowns)


@pytest.mark.parametrize(
    ("free", "mine", "slug"),
    [("8.00 MiB", "10.60 GiB", "model-too-large"), ("8.00 MiB", "8.57 MiB", "gpu-held-by-others"), ("13.00 MiB", "10.60 GiB", "numbers-contradict")],
)
@pytest.mark.incident("OM03", came="right", fed="readers", known=True, twin="the GPU is full, by this process or by others")
def test_less_free_than_asked_for_is_one(tmp_path: Path, free: str, mine: str, slug: str) -> None:
    """Torch up to 1.3: "cached" is what is kept beside what is allocated; nothing negative comes of it."""
    found = machine(tmp_path, OM03.replace("9.28 GiB free", f"{free} free").replace("8.57 MiB already", f"{mine} already"))
    assert found.causes[0].slug in (slug, slug.replace("gpu-held-by-others", "held-by-another-tenant"))
    assert "-" not in re.sub(r"[a-z]-[a-z]", "", found.causes[0].evidence[0])


@pytest.mark.incident("OM03", came="right", fed="readers", known=True, twin="the process's own limit, from 1.8 on in the message")
def test_a_limit_that_the_process_set_itself(tmp_path: Path) -> None:
    for log in (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.92 GiB total capacity; 5.00 GiB already allocated; 5.60 "
        "GiB free; 5.00 GiB allowed; 5.01 GiB reserved in total by PyTorch)",
        NEW.format(tried="2.00 GiB", free="40.00 GiB", who="30.00 GiB allowed; ", mine="29.00 GiB"),
    ):
        assert slugs(machine(tmp_path, log)) == [("own-limit", Certainty.CONFIRMED)]


@pytest.mark.incident("OM02", came="right", fed="readers", known=True)
def test_somebody_else_has_the_memory(tmp_path: Path) -> None:
    log = (
        "RuntimeError: CUDA out of memory. Tried to allocate 60.00 MiB (GPU 0; 11.17 GiB total capacity; 505.96 MiB already allocated; "
        "12.50 MiB free; 530.00 MiB reserved in total by PyTorch)"
    )
    found = machine(tmp_path, log)
    assert found.causes[0].slug in ("gpu-held-by-others", "held-by-another-tenant")
    assert "10.6 GiB are held by others" in found.headline


@pytest.mark.parametrize(
    ("who", "slug"),
    [
        ("Process 812345 has 78.90 GiB memory in use. ", "model-too-large"),
        ("Process 812345 has 39.00 GiB memory in use. Process 812346 has 39.90 GiB memory in use. ", "gpu-held-by-others"),
        ("Including non-PyTorch memory, this process has 39.00 GiB memory in use. Process 7 has 39.90 GiB memory in use. ", "gpu-held-by-others"),
    ],
)
@pytest.mark.incident("OM02", came="right", fed="readers", known=True, twin="inside a container the process itself stands among the others")
def test_the_process_itself_under_the_drivers_number(tmp_path: Path, who: str, slug: str) -> None:
    mine = "77.00 GiB" if slug == "model-too-large" else "37.50 GiB"
    found = machine(tmp_path, NEW.format(tried="2.00 GiB", free="10.00 MiB", who=who, mine=mine))
    assert found.causes[0].slug in (slug, slug.replace("gpu-held-by-others", "held-by-another-tenant"))


@pytest.mark.incident("OM02", came="right", fed="readers", known=True, twin="the number of the holder was given to another process")
def test_a_number_that_was_given_out_again(tmp_path: Path) -> None:
    """The message names a process by its number; what has that number now began after the log's last line."""
    who = f"Including non-PyTorch memory, this process has 39.00 GiB memory in use. Process {os.getpid()} has 39.90 GiB memory in use. "
    log = NEW.format(tried="2.00 GiB", free="10.00 MiB", who=who, mine="37.50 GiB")
    assert machine(tmp_path, log).causes[0].slug == "gpu-held-by-others"
    assert machine(tmp_path, log, 12 * 3600).causes[0].slug == "held-by-another-tenant"


def test_eight_ranks_that_each_fill_a_gpu_of_the_same_number(tmp_path: Path) -> None:
    """Each sees its own card as GPU 0. What they hold does not fit on one."""
    one = NEW.format(tried="2.00 GiB", free="10.00 MiB", who="Including non-PyTorch memory, this process has 78.90 GiB memory in use. ", mine="77.00 GiB")
    assert machine(tmp_path, "\n".join(f"[rank{r}]: {one}" for r in range(8))).causes[0].slug == "model-too-large"
    small = one.replace("78.90 GiB", "9.80 GiB").replace("77.00 GiB", "9.00 GiB")
    assert machine(tmp_path, "\n".join(f"[rank{r}]: {small}" for r in range(8))).causes[0].slug == "ranks-on-one-gpu"


@pytest.mark.incident("T2-03", came="right", fed="readers", known=True)
def test_unified_memory_full_of_page_cache(tmp_path: Path) -> None:
    found = machine(tmp_path, SPARK_LOG, gpu=SPARK_GPU, memory=meminfo(121.6, 3.1, 115.7, 110))
    assert slugs(found) == [("page-cache-counts", Certainty.LIKELY)]
    assert "3.1 GiB are free (MemFree) and 115.7 GiB available" in found.headline
    assert not any("batch" in x or "sharding" in x for x in (*found.do_now, *(f.action for f in found.findings)))


@pytest.mark.incident("T2-03", came="right", fed="readers", known=True, twin="torch says it: free is below, available above what was asked for")
def test_unified_memory_by_torchs_own_message(tmp_path: Path) -> None:
    log = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 121.60 GiB of which 3.10 GiB "
        "is free. Including non-PyTorch memory, this process has 2.00 GiB memory in use. Of the allocated memory 1.50 GiB is allocated by "
        "PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
    )
    found = machine(tmp_path, log, gpu=SPARK_GPU, memory=meminfo(121.6, 3.1, 115.7, 110))
    assert slugs(found) == [("page-cache-counts", Certainty.CONFIRMED)]
    full = machine(tmp_path, log, gpu=SPARK_GPU, memory=meminfo(121.6, 0.9, 3.9, 2))
    assert slugs(full)[0] == ("unified-memory-full", Certainty.CONFIRMED)
    own = machine(tmp_path, log, memory=meminfo(121.6, 3.1, 115.7, 110))
    assert own.causes[0].slug in ("gpu-held-by-others", "held-by-another-tenant"), "a GPU with memory of its own"


@pytest.mark.incident("T2-03", came="right", fed="readers", known=True, twin="the shared memory is really full")
def test_unified_memory_that_is_really_full(tmp_path: Path) -> None:
    found = machine(tmp_path, "epoch 3\n", gpu=SPARK_GPU, memory=meminfo(121.6, 1.0, 2.9, 2.0))
    assert found.state is State.UNHEALTHY
    assert ("unified-memory-full", Certainty.LIKELY) in slugs(found)


@pytest.mark.incident("T2-03", came="right", fed="readers", known=True, twin="nothing complains")
def test_page_cache_alone_is_no_fault(tmp_path: Path) -> None:
    found = machine(tmp_path, "epoch 3\n", gpu=SPARK_GPU, memory=meminfo(121.6, 3.1, 115.7, 110))
    assert found.state in (State.HEALTHY, State.CANNOT_TELL)
    assert [c.benign for c in found.causes] == [True]
    assert "3.1 GiB are free" in found.headline


@pytest.mark.parametrize("kernel", [KILL, OLD_KILL], ids=["new-kernel", "kernel-before-4.19"])
def test_a_full_cgroup_is_not_the_host(tmp_path: Path, kernel: str) -> None:
    found = machine(tmp_path, "step 7\nKilled\n", kernel=kernel.format(at=now_since_boot(30), group=GROUP))
    assert slugs(found) == [("cgroup-oom", Certainty.CONFIRMED)]
    said = " ".join((found.headline, *found.causes[0].evidence))
    assert "container 27ebea4ac662" in found.causes[0].subject
    assert f"{datetime.now(UTC):%Y-%m-}" in said, "the time of the kill"
    assert "58.6 GiB" in said
    assert "64 GiB of its limit of 64 GiB" in said
    assert "400 GiB of the machine's 512 GiB are available" in said
    assert not any("The host" in x for x in (found.headline, *(f.issue for f in found.findings)))


def test_the_host_is_named_where_no_limit_was_reached(tmp_path: Path) -> None:
    found = machine(tmp_path, "step 7\nKilled\n", kernel=HOST_KILL.format(at=now_since_boot(30), group=GROUP))
    assert slugs(found) == [("host-oom", Certainty.CONFIRMED)]
    assert "the machine" in found.causes[0].subject


@pytest.mark.parametrize(
    ("group", "who"),
    [
        ("/slurm/uid_1000/job_4711/step_0/task_0", "Slurm job 4711"),
        ("/system.slice/trainer.service", "trainer.service"),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f9d1d33_6a49_4d2c_9c51_7f0c2a3c8d11.slice", "pod 0f9d1d33…"),
        ("/user.slice/user-1000.slice", "the slice of user 1000"),
        ("/jobs/a", "cgroup /jobs/a"),
    ],
)
def test_whose_limit_it_was(tmp_path: Path, group: str, who: str) -> None:
    found = machine(tmp_path, "Killed\n", kernel=KILL.format(at=now_since_boot(5), group=group))
    assert who in found.causes[0].subject


def test_a_kill_of_another_day_is_not_the_jobs(tmp_path: Path) -> None:
    """Same name, same words in the log: only the time tells them apart."""
    found = machine(tmp_path, "step 7\nKilled\n", 3 * 86400, kernel=KILL.format(at=now_since_boot(5), group=GROUP))
    assert slugs(found) == []
    assert "4242" not in found.headline, "it is no answer to what is asked"
    assert any("pid 4242 (python3)" in f.issue and "3 days after the end of its log" in f.issue for f in found.findings)
    assert any("names no kill within 10 minutes of its end" in x for x in found.unknowns)
    assert found.state is State.CANNOT_TELL


def test_a_kernel_log_that_lost_the_beginning_of_a_block(tmp_path: Path) -> None:
    cut = OLD_KILL.format(at=now_since_boot(5), group=GROUP).splitlines()[-1]
    (found,) = machine(tmp_path, "Killed\n", kernel=cut + "\n").causes
    assert found.certainty is Certainty.LIKELY
    assert any("no longer says whether a limit or the machine" in x for x in found.evidence)


@contextmanager
def limited_group(limit: int) -> Iterator[Path]:
    """A control group of this machine with a memory limit, removed at the end."""
    old = Path("/sys/fs/cgroup/memory/memory.usage_in_bytes").exists()
    top = Path("/sys/fs/cgroup/memory" if old else "/sys/fs/cgroup")
    group = top / f"gpurb-places-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def test_a_real_kill_in_a_real_group(tmp_path: Path) -> None:
    """tail on /dev/zero grows until the kernel ends it; its log is written at that time."""
    (tmp_path / "train.log").write_text("Killed\n")
    with limited_group(24 << 20) as group:
        done = subprocess.run(["sh", "-c", f"echo $$ > {group}/cgroup.procs && exec tail /dev/zero"], capture_output=True, check=False)
        assert done.returncode == -9
        found = look(LocalHost("node-a"), log=str(tmp_path / "train.log"))
    mine = next(c for c in found.causes if group.name in c.subject)
    assert mine.slug == "cgroup-oom"
    assert mine.certainty is not Certainty.POSSIBLE, "the log says that it was killed, at that time"
    assert any("24 MiB of its limit of 24 MiB" in x for x in mine.evidence)
    assert not [c for c in found.causes if c.slug == "host-oom" and group.name in " ".join((c.subject, *c.evidence))]
