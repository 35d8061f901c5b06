"""Out-of-memory texts of real programs -> who holds the memory, and what to change for the given configuration."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.gpu_set import Gpu, GpuProcess, GpuSet
from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.memory.advice import cheaper_batches
from runbooks.memory.diagnose import diagnose
from runbooks.memory.evidence import Evidence, HostMemory, LogFacts, Setup
from runbooks.memory.limits import Limits
from runbooks.memory.parsers.kernel_ooms import HostOom, parse_host_ooms
from runbooks.parsers.cuda_oom import parse_cuda_ooms
from tasks.context import Context
from tasks.memory.read import gather_memory_pressure, read_log
from tasks.transport.local import LocalHost

BOOK = load_runbook("memory-pressure")
LIMITS = Limits(**BOOK.limit_values())
GIB = 1 << 30
K80 = (  # a public report: 530 MiB reserved on an 11 GiB card
    "RuntimeError: CUDA out of memory. Tried to allocate 60.00 MiB (GPU 0; 11.17 GiB total capacity; 505.96 MiB "
    "already allocated; "
    "12.50 MiB free; 530.00 MiB reserved in total by PyTorch)"
)
H100 = (  # recorded on a real H100
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.18 GiB "
    "of which 6.66 GiB is "
    "free. Including non-PyTorch memory, this process has 72.51 GiB memory in use. Of the allocated memory 72.00 GiB "
    "is allocated by "
    "PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)
LOOSE = H100.replace("Of the allocated memory 72.00", "Of the allocated memory 50.00").replace(
    "0 bytes is res", "22.00 GiB is res"
)


def judge(log: str, **more: Any) -> Diagnosis:
    seen = Evidence(
        node="a", taken_at=datetime(2026, 1, 1, tzinfo=UTC), log=Known[LogFacts](value=read_log(log)), **more
    )
    return diagnose(seen, LIMITS)


def test_arithmetic_of_the_message() -> None:
    (oom,) = parse_cuda_ooms(K80)
    assert oom.elsewhere == pytest.approx(10.64 * GIB, rel=0.01)
    got = judge(K80)
    assert [c.slug for c in got.causes] == ["gpu-held-by-others"]
    assert {"kill every PID on the GPU", "reset a shared GPU"} <= set(got.must_not)


def test_own_size_with_numbers_for_the_configuration() -> None:
    got = judge(H100, setup=Setup(batch=8, gpus=4, accumulation=2))
    assert [c.slug for c in got.causes] == ["model-too-large"]
    assert any(
        "batch 4 per GPU with 4 accumulation steps on 4 GPUs: the global batch stays 64" in x for x in got.do_now
    )
    order = [x for x in got.do_now if x[:1].isdigit()]
    assert "batch" in order[0]
    assert "activation checkpointing" in order[1]


@pytest.mark.parametrize(("batch", "accumulation"), [(8, 1), (6, 2), (1, 4), (7, 3)])
def test_global_batch_is_kept(batch: int, accumulation: int) -> None:
    for b, a in cheaper_batches(Setup(batch=batch, accumulation=accumulation)):
        assert b * a == batch * accumulation
        assert b < batch


def test_fragments() -> None:
    got = judge(LOOSE)
    assert [c.slug for c in got.causes] == ["fragmented"]
    assert "expandable_segments" in got.do_now[1]


def test_ranks_on_one_gpu_after_a_resume() -> None:
    log = "Resuming from /ckpt/step_100.pt\n" + "\n".join(f"[rank{r}]: {K80}" for r in range(4))
    got = judge(log)
    assert [c.slug for c in got.causes] == ["ranks-on-one-gpu"]
    assert "a checkpoint was loaded before" in got.causes[0].evidence


def test_another_tenant() -> None:
    gpu = Gpu(
        index=0,
        uuid="u",
        name="x",
        memory_total_bytes=12 * GIB,
        memory_used_bytes=11 * GIB,
        samples=(),
        processes=Known(value=()),
    )
    got = judge(K80, gpus=Known[GpuSet](value=GpuSet(gpus=(gpu,))))
    assert [c.slug for c in got.causes] == ["held-by-another-tenant"]
    held = gpu.model_copy(update={"processes": Known(value=(GpuProcess(pid=7, used_bytes=10 * GIB),))})
    got = judge(K80, gpus=Known[GpuSet](value=GpuSet(gpus=(held,))))
    assert [c.slug for c in got.causes] == ["gpu-held-by-others"]


@pytest.mark.parametrize(
    ("log", "sure"),
    [
        (Absent(proof="no log was named"), Certainty.LIKELY),
        (Unknown(reason=UnknownReason.NOT_ASKED), Certainty.LIKELY),
        (Unknown(reason=UnknownReason.TIMED_OUT), Certainty.POSSIBLE),
    ],
)
def test_without_a_named_log_the_machine_is_asked_about(log: Absent | Unknown, sure: Certainty) -> None:
    """One that was named and not read could say whose process it was."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    kill = HostOom(pid=4242, name="tail", rss=1, cgroup=True, at=now - timedelta(hours=2))
    seen = Evidence(node="a", taken_at=now, log=log, killed=Known[tuple[HostOom, ...]](value=(kill,)))
    (cause,) = diagnose(seen, LIMITS).causes
    assert (cause.slug, cause.certainty) == ("cgroup-oom", sure)


@pytest.mark.parametrize(("whose", "cgroup"), [("Memory cgroup o", True), ("O", False)])
def test_a_child_that_was_killed_for_the_chosen_process(whose: str, cgroup: bool) -> None:
    """Kernels before 5.3 name the process that was chosen, and may kill a child of it. A later kill without such a line stays open."""
    chosen = f"[ 10.1] {whose}ut of memory: Kill process 24984 (server) score 968 or sacrifice child\n"
    killed = "[ 10.2] Killed process 18177 (child) total-vm:70347780kB, anon-rss:45563572kB, file-rss:0kB, shmem-rss:0kB\n"
    (kill,) = parse_host_ooms(chosen + killed)
    assert (kill.pid, kill.cgroup, kill.told) == (18177, cgroup, True)
    got = judge("", killed=Known[tuple[HostOom, ...]](value=(kill,)))
    assert [c.slug for c in got.causes][:1] == ["cgroup-oom" if cgroup else "host-oom"]
    first, second = parse_host_ooms(chosen + killed + killed.replace("18177", "18178"))
    assert (first.told, second.told) == (True, False)


def test_host_and_snapshot() -> None:
    kernel = (
        "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:90000kB, anon-rss:60000kB, file-rss:0kB"
    )
    assert parse_host_ooms(kernel) == (HostOom(pid=4242, name="python3", rss=60000 * 1024, cgroup=True),)
    got = judge("", killed=Known[tuple[HostOom, ...]](value=parse_host_ooms(kernel)))
    assert [(c.slug, c.certainty) for c in got.causes] == [("cgroup-oom", Certainty.LIKELY)]
    got = judge("epoch 3\nKilled\n", killed=Known[tuple[HostOom, ...]](value=parse_host_ooms(kernel)))
    assert got.causes[0].certainty is Certainty.LIKELY, "neither the kill nor the log's end has a time"
    other = kernel.replace("python3", "tail")
    got = judge(K80, killed=Known[tuple[HostOom, ...]](value=parse_host_ooms(other)))
    assert [c.slug for c in got.causes] == ["gpu-held-by-others", "cgroup-oom"], "a stranger that was killed comes last"
    assert got.causes[1].certainty is Certainty.POSSIBLE
    text = "MemoryLimitExceeded: Cannot save snapshot: 2048.0MB required, but only 512.0MB available"
    got = judge(text, host=Known[HostMemory](value=HostMemory(total=64 * GIB, available=32 * GIB)))
    assert "enough to raise it" in got.causes[0].evidence[1]


def test_without_numbers_it_says_so() -> None:
    got = judge("RuntimeError: CUDA error: out of memory")
    assert got.state is State.CANNOT_TELL
    assert got.causes[0].decides
    read = {"host": HostMemory(total=64 * GIB, available=32 * GIB), "gpus": GpuSet(gpus=()), "killed": (), "commands": {}}
    whole: dict[str, Any] = {name: Known(value=value) for name, value in read.items()}
    assert judge("all is well", **whole).state is State.HEALTHY
    assert judge("all is well").state is State.CANNOT_TELL, "of the machine nothing was read"


def test_gather_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(K80)
    fleet = Fleet(nodes=(Node(name="a", local=True),))
    ctx = Context(
        fleet=fleet,
        target="a",
        open_host=lambda n: LocalHost(n.name),
        options={"log": str(tmp_path / "log"), "batch": 8},
    )
    seen = gather_memory_pressure(ctx)
    assert isinstance(seen.host, Known)
    assert seen.host.value.total > GIB
    assert diagnose(seen, LIMITS).causes[0].slug == "gpu-held-by-others"
    assert Evidence.model_validate_json(seen.model_dump_json()) == seen


@pytest.mark.parametrize("slug", BOOK.causes)
def test_signatures(slug: str) -> None:
    for s in BOOK.causes[slug].signatures:
        assert re.search(s.pattern, s.example), s.pattern


def test_what_else_the_log_says_stands_in_the_report() -> None:
    """Memory was not what ended it: the whole knowledge base reads the same words, and says no cause twice."""
    got = judge("step 41\nOSError: [Errno 28] No space left on device: '/data/ckpt/step-41.pt'\n")
    assert [f.category for f in got.findings] == ["container-death/disk-full"] or "disk-full" in got.findings[
        0
    ].category
    assert "line 2" in got.findings[0].issue
    assert not [f for f in judge(H100).findings if f.category == "memory-pressure/model-too-large"]
    assert judge("step 41 loss 2.1").findings == ()
