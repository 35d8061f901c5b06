"""Who holds a GPU's memory when it runs out, by the numbers of the message, of the driver and, where they share one memory, of the
machine."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runbooks.core.reading import Known
from runbooks.core.sizes import size
from runbooks.core.verdict import Cause, Certainty
from runbooks.memory.advice import EXPANDABLE
from runbooks.memory.evidence import Evidence, HostMemory, LogFacts
from runbooks.memory.parsers.gpu_names import is_integrated
from runbooks.parsers.cuda_oom import CudaOom, in_pieces, who_fills

if TYPE_CHECKING:
    from runbooks.memory.limits import Limits

SURE, LIKELY, POSSIBLE = Certainty.CONFIRMED, Certainty.LIKELY, Certainty.POSSIBLE
MOST_NOW = 16  # lines about what holds the GPUs now
NOT_A_LACK = (
    "host memory, limits (ulimit -a) and the kernel log at that time",
    "whether it comes again after a restart from the checkpoint",
    "another process that freed memory in that moment",
)


def device_causes(evidence: Evidence, limits: "Limits") -> Iterator[Cause]:
    """Why an allocation on a GPU failed; and memory that CPU and GPU share."""
    log = evidence.log.value if isinstance(evidence.log, Known) else None
    oom = log.cuda[-1] if log and log.cuda else None
    shared = next(_shared(evidence, oom, limits), None)
    if shared is not None:
        yield shared
    elif log is not None and oom is not None:
        yield _why(evidence, log, oom, limits)
    elif log is not None and log.bare:
        decides = ("the full message with its numbers", "nvidia-smi at that moment")
        said = "the log reports a failed allocation without its numbers"
        yield _cause("out-of-memory-bare", POSSIBLE, evidence.node, said, *_now(evidence), decides=decides)


def _cause(slug: str, sure: Certainty, subject: str, *words: str, decides: tuple[str, ...] = (), benign: bool = False) -> Cause:
    evidence = tuple(w for w in words if w)
    return Cause(slug=slug, certainty=sure, subject=subject, evidence=evidence, decides=decides, benign=benign)


def _why(evidence: Evidence, log: LogFacts, oom: CudaOom, limits: "Limits") -> Cause:
    """By the numbers of the last message, unless several messages or the table of processes show ranks that share one GPU."""
    where, slug = f"GPU {oom.gpu}", who_fills(oom, limits)
    if slug == "numbers-contradict":
        asked = f"{size(oom.tried)} were asked for and {size(oom.free)} are free: the GPU did not lack memory"
        words = (f"the message's numbers cannot all be true: {_numbers(oom)}",) if oom.impossible else (asked, _numbers(oom))
        return _cause(slug, POSSIBLE, where, *words, decides=NOT_A_LACK)
    if slug == "own-limit":
        allowed = f"this process may use {size(oom.allowed or 0)} and has {size(oom.allocated)}; it asked for {size(oom.tried)}"
        return _cause(slug, SURE, where, allowed, f"{size(oom.free)} of the GPU's {size(oom.total)} are free")
    if _ranks_on_one(evidence, log, oom):
        ranks = sorted({o.rank for o in log.cuda if o.rank is not None})
        told = f"{where} ran out for ranks {', '.join(map(str, ranks))}" if len(ranks) > 1 else _pids(oom)
        return _cause("ranks-on-one-gpu", LIKELY, where, told, "a checkpoint was loaded before" if log.resumed else "")
    if slug == "gpu-held-by-others":
        return _outside(evidence, oom, limits)
    if slug == "fragmented":
        unused = f"{size(oom.unused)} are reserved and unused, {size(oom.tried)} were asked for, {size(oom.free)} are free"
        return _cause(slug, LIKELY, where, unused)
    if slug != "model-too-large":
        decides = ("the full message: what was asked for, and who held the GPU",)
        return _cause("out-of-memory-bare", POSSIBLE, where, f"the message's numbers name nobody: {_numbers(oom)}", decides=decides)
    held = (f"this process holds {size(oom.mine)} of {size(oom.total)} and asks for {size(oom.tried)} more; "
            f"{size(oom.elsewhere)} are held elsewhere")  # fmt: skip
    own = f"pid {oom.own.pid} in the message is this process itself, by the driver's number" if oom.own else ""
    kept = f"{size(oom.unused)} of that are reserved and unused" if oom.unused else ""
    if oom.fits_in_pieces:
        return _cause("model-too-large", LIKELY, where, held, kept, own, decides=(f"whether it comes again with {EXPANDABLE}",))
    return _cause("model-too-large", SURE, where, held, kept, own)


def _numbers(oom: CudaOom) -> str:
    return f"{size(oom.total)} in all, {size(oom.free)} free, {size(oom.allocated)} allocated, {size(oom.mine)} reserved by this process"


def integrated(evidence: Evidence) -> str:
    """The name of a GPU that has no memory of its own, "" where none is seen."""
    if not isinstance(evidence.gpus, Known):
        return ""
    seen = evidence.gpus.value
    names = [g.name for g in seen.gpus] + [e.name for e in seen.errors]
    return next((n for n in names if is_integrated(n)), "")


def _shared(evidence: Evidence, oom: CudaOom | None, limits: "Limits") -> Iterator[Cause]:
    """CPU and GPU share the machine's memory: what CUDA calls free is the kernel's MemFree, which counts page cache as used."""
    name, host = integrated(evidence), evidence.host.value if isinstance(evidence.host, Known) else None
    if not name or host is None or host.free is None:
        return
    words = (f"{size(host.free)} are free (MemFree) and {size(host.available)} available (MemAvailable) of the machine's "
             f"{size(host.total)}; {name} has no memory of its own")  # fmt: skip
    cached = f"page cache and buffers: {size(host.cached)}" if host.cached is not None else ""
    asked = f"{size(oom.tried)} were asked for, {size(oom.free)} were called free" if oom else ""
    complains = oom is not None or _complains(evidence)
    where = f"{evidence.node}, {name}"
    if host.available < limits.available_share * host.total or (oom and host.available < oom.tried):
        yield _cause("unified-memory-full", SURE if complains else LIKELY, where, words, asked, cached)
    elif host.available - host.free > limits.cache_share * host.total:
        decides = () if oom else ("what the failing program calls free, against MemFree and MemAvailable at that time",)
        sure = SURE if oom and oom.free < oom.tried <= host.available else LIKELY if complains else SURE
        yield _cause("page-cache-counts", sure, where, words, asked, cached, decides=decides, benign=not complains)


def _complains(evidence: Evidence) -> bool:
    """Whether the job's log reports a lack of memory, in whatever words."""
    if not isinstance(evidence.log, Known):
        return False
    return evidence.log.value.bare or evidence.log.value.short


def _ours(evidence: Evidence, pid: int) -> bool:
    known = evidence.commands.value if isinstance(evidence.commands, Known) else {}
    return pid in known and any(re.search(p, known[pid]) for p in evidence.job_match)


def _ranks_on_one(evidence: Evidence, log: LogFacts, oom: CudaOom) -> bool:
    """Several ranks failed on one GPU, or the message names several processes of the job there.

    A number is no GPU: each node, and each process with CUDA_VISIBLE_DEVICES, counts from 0. What they hold must fit on one."""
    same = {o.rank: o for o in log.cuda if o.gpu == oom.gpu and o.rank is not None}
    fits = sum(o.mine for o in same.values()) <= oom.total
    return (len(same) > 1 and fits) or sum(_ours(evidence, o.pid) for o in oom.others) >= 2


def _pids(oom: CudaOom) -> str:
    return f"GPU {oom.gpu} holds memory of pids {', '.join(str(o.pid) for o in oom.others)}, all of this job"


def _outside(evidence: Evidence, oom: CudaOom, limits: "Limits") -> Cause:
    holders = _holders(evidence, oom.gpu)
    words = (
        f"{size(oom.elsewhere)} are held by others: {size(oom.total)} in all, {size(oom.free)} free, {size(oom.mine)} in this process",
        *(f"pid {o.pid} holds {size(o.bytes)}" for o in oom.others[:8]), *holders,
    )  # fmt: skip
    visible = holders or any(isinstance(evidence.commands, Known) and o.pid in evidence.commands.value for o in oom.others)
    slug = "gpu-held-by-others" if visible or not isinstance(evidence.gpus, Known) else "held-by-another-tenant"
    decides = ("who holds it, seen from the host (not from a container), and whether it works",)
    beside = tuple(_own_part(oom, limits))
    told, open_ = tuple(w for w, _ in beside), tuple(d for _, d in beside)
    return _cause(slug, LIKELY if beside else SURE, f"GPU {oom.gpu}", *words, *told, decides=(*decides, *open_))


def _own_part(oom: CudaOom, limits: "Limits") -> Iterator[tuple[str, str]]:
    """What of this process itself explains the message as well as the others on the GPU do, and what decides it."""
    if in_pieces(oom, limits):
        kept = f"{size(oom.unused)} are reserved by this process and unused: with what is free, enough for the {size(oom.tried)} asked for"
        yield kept, f"whether it comes again with {EXPANDABLE}"
    if not oom.fits_alone:
        alone = f"this process alone would need {size(oom.tried + oom.mine - oom.unused)} of {size(oom.total)}"
        yield alone, "whether it comes again on an empty GPU"


def _now(evidence: Evidence) -> tuple[str, ...]:
    """What is used of each GPU now, and by whom."""
    lines = []
    for g in evidence.gpus.value.gpus if isinstance(evidence.gpus, Known) else ():
        lines.append(f"now {size(g.memory_used_bytes)} of {size(g.memory_total_bytes)} are used on GPU {g.index}")
        lines += _holders(evidence, g.index)
    return tuple(lines[:MOST_NOW])


def _holders(evidence: Evidence, index: int) -> tuple[str, ...]:
    """Who the driver names on that GPU now."""
    if not isinstance(evidence.gpus, Known):
        return ()
    found = [g.processes.value for g in evidence.gpus.value.gpus if g.index == index and isinstance(g.processes, Known)]
    known = evidence.commands.value if isinstance(evidence.commands, Known) else {}
    return tuple(f"now pid {p.pid} holds {size(p.used_bytes) if p.used_bytes is not None else 'memory'} there: "
                 f"{known.get(p.pid, 'command not visible')[:120]}" for rows in found for p in rows)  # fmt: skip


def snapshot_causes(evidence: Evidence) -> Iterator[Cause]:
    """A snapshot in memory that did not fit its own limit."""
    if not isinstance(evidence.log, Known) or evidence.log.value.snapshot is None:
        return
    s = evidence.log.value.snapshot
    words = [f"a snapshot needs {size(s.needed)}, {size(s.available)} are allowed"]
    host: HostMemory | None = evidence.host.value if isinstance(evidence.host, Known) else None
    if host is not None:
        fits = "enough" if host.available > 2 * s.needed else "not enough"
        words.append(f"{size(host.available)} of host memory are available: {fits} to raise it")
    yield _cause("snapshot-limit", SURE, evidence.node, *words)
