"""Worlds of the two runbooks that judge texts and files, in which something is wrong and everything was read."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from runbooks.core.gpu_set import Gpu, GpuProcess, GpuSet
from runbooks.core.reading import Known
from runbooks.data.diagnose import CAUSE
from runbooks.data.evidence import DataFile, Fault
from runbooks.data.evidence import Evidence as DataEvidence
from runbooks.memory.evidence import Evidence as MemoryEvidence
from runbooks.memory.evidence import HostMemory, LogFacts, MemoryGroup
from runbooks.memory.parsers.kernel_ooms import HostOom
from tasks.memory.read import read_log

TWO = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is "
    "free. Process 7 has 30.00 GiB memory in use. Process 8 has 30.00 GiB memory in use. Including non-PyTorch memory, this process has "
    "19.00 GiB memory in use. Of the allocated memory 19.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
    "unallocated."
)
UNUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is "
    "free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 50.00 GiB is allocated by "
    "PyTorch, and 27.00 GiB is reserved by PyTorch but unallocated."
)
IN_PIECES = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which "
    "5.00 GiB is free. Including non-PyTorch memory, this process has {mine}.00 GiB memory in use. Of the allocated memory {used}.00 GiB "
    "is allocated by PyTorch, and {unused}.00 GiB is reserved by PyTorch but unallocated."
)
ALLOWED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 60.00 GiB is "
    "free. 20.00 GiB allowed; Including non-PyTorch memory, this process has 19.00 GiB memory in use. Of the allocated memory 19.00 GiB is "
    "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)
SNAPSHOT = "MemoryLimitExceeded: Cannot save snapshot: 40.00 GiB required, but only 10.00 GiB available"
JSON = "json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 81)"
AT = datetime(2026, 5, 1, tzinfo=UTC)
GIB = 1 << 30
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which "
    "{free}.00 GiB is free. Including non-PyTorch memory, this process has {mine}.00 GiB memory in use. Of the allocated memory "
    "{mine}.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)


def worlds() -> Iterator[tuple[str, str, BaseModel]]:
    """(runbook, title, evidence)."""
    for kind in CAUSE:
        index = "index" in kind or kind in ("data-missing", "data-cut", "ids-out-of-range")
        file = DataFile(path="/d/a", kind="index" if index else "jsonl", faults=(Fault(kind=kind, detail="as read"),))
        whole = DataFile(path="/d/b", kind="jsonl", lines=9)
        files = {f.path: Known[DataFile](value=f) for f in (file, whole)}
        yield "data-check", kind, DataEvidence(node="a", taken_at=AT, files=files, log=Known[str](value="epoch 1"))
    rows = {"/d/a.json": Known[DataFile](value=DataFile(path="/d/a.json", kind="jsonl", lines=9))}
    yield "data-check", "rows in a .json", DataEvidence(node="a", taken_at=AT, files=rows, log=Known[str](value=JSON))
    yield from _more_memory()
    for tried, free, mine in ((8, 6, 74), (2, 1, 79), (12, 4, 76)):
        yield "memory-pressure", f"{mine} GiB of its own", memory(OOM.format(tried=tried, free=free, mine=mine))
    for mine in (10, 40):
        yield "memory-pressure", f"{79 - mine} GiB of another", memory(OOM.format(tried=8, free=1, mine=mine), other=79 - mine)
    for group, named in (("/docker/4f1a", "its container's limit"), ("", "the machine")):
        kill = HostOom(pid=7, name="python", rss=100 * GIB, cgroup=bool(group), group=group, at=AT)
        yield "memory-pressure", f"killed for {named}", memory("Killed", killed=Known[tuple[HostOom, ...]](value=(kill,)))


def _more_memory() -> Iterator[tuple[str, str, BaseModel]]:
    """Who else may hold a GPU, and memory that CPU and GPU share."""
    seen = {
        "69 GiB that no visible process holds": memory(OOM.format(tried=8, free=1, mine=10)),
        "two ranks of the job on one GPU": _two("python train.py"),
        "two strangers on the GPU": _two("python other.py"),
        "two on the GPU that nobody sees": _two(""),
        "27 GiB reserved and unused": memory(UNUSED),
        "10 GiB reserved and unused and 5 GiB free, 12 GiB asked for": memory(IN_PIECES.format(tried=12, mine=74, used=64, unused=10)),
        "3 GiB reserved and unused and 5 GiB free, 7 GiB asked for": memory(IN_PIECES.format(tried=7, mine=74, used=71, unused=3)),
        "10 GiB reserved and unused, and 40 GiB of another": memory(IN_PIECES.format(tried=12, mine=35, used=25, unused=10), other=40),
        "a limit of its own": memory(ALLOWED),
        "more free than was asked for": memory(OOM.format(tried=2, free=6, mine=70)),
        "a snapshot beyond its limit": memory(SNAPSHOT),
        "a machine that has nothing left": memory("epoch 1", host=_host(1)),
        "page cache that counts as used": memory("RuntimeError: CUDA error: out of memory", gpus=_integrated(), host=_host(100, free=2)),
        "memory that both share is full": memory("RuntimeError: CUDA error: out of memory", gpus=_integrated(), host=_host(2, free=1)),
    }
    yield from (("memory-pressure", title, evidence) for title, evidence in seen.items())


def _two(command: str) -> MemoryEvidence:
    """A message that names two processes, of which this command line is seen; "": none."""
    commands = {pid: command for pid in (7, 8) if command}
    return memory(TWO, commands=Known[dict[int, str]](value=commands), job_match=("train",))


def _host(available: int, free: int | None = None) -> Known[HostMemory]:
    bytes_free = None if free is None else free * GIB
    return Known[HostMemory](value=HostMemory(total=128 * GIB, available=available * GIB, free=bytes_free))


def _integrated() -> Known[GpuSet]:
    table = Known[tuple[GpuProcess, ...]](value=())
    gpu = Gpu(index=0, uuid="u0", name="NVIDIA GB10", samples=(), processes=table, memory_total_bytes=0, memory_used_bytes=0)
    return Known[GpuSet](value=GpuSet(gpus=(gpu,)))


def memory(log: str, other: int = 0, **more: Any) -> MemoryEvidence:
    """A node with one GPU of 80 GiB, of which another visible process holds `other` GiB."""
    held = Known[tuple[GpuProcess, ...]](value=(GpuProcess(pid=9, used_bytes=other * GIB),) if other else ())
    gpu = Gpu(index=0, uuid="u0", name="H100", samples=(), processes=held, memory_total_bytes=80 * GIB, memory_used_bytes=other * GIB)
    given: dict[str, Any] = {
        "log": Known[LogFacts](value=read_log(log).model_copy(update={"written_at": AT})),
        "groups": Known[tuple[MemoryGroup, ...]](value=()),
        "gpus": Known[GpuSet](value=GpuSet(gpus=(gpu,))),
        "host": Known[HostMemory](value=HostMemory(total=128 * GIB, available=100 * GIB)),
        "killed": Known[tuple[HostOom, ...]](value=()), "commands": Known[dict[int, str]](value={9: "python other.py"}),
    }  # fmt: skip
    return MemoryEvidence(node="a", taken_at=AT, **(given | more))
