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
    for tried, free, mine in ((8, 6, 74), (2, 1, 79), (12, 4, 76)):
        yield "memory-pressure", f"{mine} GiB of its own", memory(OOM.format(tried=tried, free=free, mine=mine))
    for mine in (10, 40):
        yield "memory-pressure", f"{79 - mine} GiB of another", memory(OOM.format(tried=8, free=1, mine=mine), other=79 - mine)
    for group, named in (("/docker/4f1a", "its container's limit"), ("", "the machine")):
        kill = HostOom(pid=7, name="python", rss=100 * GIB, cgroup=bool(group), group=group, at=AT)
        yield "memory-pressure", f"killed for {named}", memory("Killed", killed=Known[tuple[HostOom, ...]](value=(kill,)))


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
