"""Reads a job's log, the GPUs, host memory and kernel kills of one node. Changes nothing."""

from datetime import UTC, datetime
from typing import Any

from runbooks.core.gpu_set import GpuSet
from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason
from runbooks.core.same_process import MACHINE, Numbered, Same, same_process
from runbooks.memory.evidence import Evidence, HostMemory, LogFacts, MemoryGroup, Setup
from runbooks.parsers.cuda_oom import parse_cuda_ooms, parse_snapshot
from runbooks.parsers.loader_log import speaks_of_loading
from runbooks.triage.text import failures, meanings
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.memory.kernel_kills import read_kills, with_new_kills
from tasks.remote.gpus import read_gpus, read_presence
from tasks.remote.probe import run_probe, source, unknown
from tasks.transport.base import TransportError

LOG_BYTES = 256 << 10
SAYS = {
    "bare": ("memory-pressure/out-of-memory-bare",),
    "killed": ("container/killed-by-signal-9", "container-death/oom-container", "memory-pressure/host-oom"),
}  # starting points that only matter beside the machine's readings
CLOCK_S = 2.0  # start times come in clock ticks, file times in whole seconds
WORDS = 200  # last lines of the log that stay in the report


def gather_memory_pressure(context: Context) -> Evidence:
    """The whole look. Options: `log`, `batch`, `gpus`, `accumulation`, `checkpointing`."""
    log = _log(context)
    gpus = _gpus(context)
    pids = {p.pid for p in _processes(gpus)}
    if isinstance(log, Known):
        pids |= {o.pid for m in log.value.cuda for o in m.others}
    now = {p.pid for p in _processes(gpus)}
    host, groups, commands = _host(context, sorted(pids), now, log.value.written_at if isinstance(log, Known) else None)
    killed, log_from = read_kills(context, host.value if isinstance(host, Known) else None)
    return Evidence(
        node=context.node.name, taken_at=context.now(), since=context.since, log_from=log_from, log=log, gpus=gpus, host=host,
        groups=groups, commands=commands, killed=killed,
        job_match=tuple(j.match for j in context.fleet.jobs_on(context.node.name)), setup=_setup(context.options),
        hands_off=context.node.hands_off,
    )  # fmt: skip


def _setup(options: dict[str, Any]) -> Setup:
    def number(name: str) -> int | None:
        return int(options[name]) if options.get(name) else None

    given = options.get("checkpointing")
    flag = None if given is None else str(given).lower() in ("1", "true", "yes", "on")
    return Setup(
        batch=number("batch"), gpus=number("gpus"), accumulation=number("accumulation") or 1, checkpointing=flag
    )


@diagnostic("job log · {context.target}")
def _log(context: Context) -> Reading[LogFacts]:
    path = str(context.options.get("log", ""))
    if not path and context.since:
        return Absent(proof="a sweep asks about the machine, not about one job's log")
    if not path:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="no `log` was named for this run")
    at = Source(command=f"tail -c {LOG_BYTES} {path}", host=context.node.name, taken_at=context.now())
    try:
        done = context.host.run(("tail", "-c", str(LOG_BYTES), "--", path), timeout_s=20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=at)
    if done.exit:
        return Unknown(reason=UnknownReason.FAILED, detail=done.err.strip()[:300], source=at)
    facts = read_log(context.redactor.text(done.out))
    return Known[LogFacts](value=facts.model_copy(update={"written_at": _written(context, path)}), source=at)


def _written(context: Context, path: str) -> datetime | None:
    """When the log was last written, by the node's clock."""
    try:
        said = context.host.run(("stat", "-c", "%Y", "--", path), timeout_s=20).out.strip()
    except TransportError:
        return None
    return datetime.fromtimestamp(int(said), UTC) if said.isdecimal() else None


def read_log(text: str) -> LogFacts:
    """Memory facts of a log's text."""
    cuda = parse_cuda_ooms(text)
    where = text.find(cuda[-1].text[:60]) if cuda else len(text)
    resumed = speaks_of_loading(text[max(0, where - 5000) : where])
    said = meanings(text, SAYS)
    return LogFacts(
        cuda=cuda[-64:], snapshot=parse_snapshot(text), resumed=resumed, killed="killed" in said,
        short=any("memory" in line.lower() for _, line in failures(text)[0]),
        bare=not cuda and "bare" in said, words=tuple(x[:400] for x in text.splitlines()[-WORDS:]),
    )  # fmt: skip


def _gpus(context: Context) -> Reading[GpuSet]:
    presence = read_presence(context)
    return presence if isinstance(presence, Unknown) else read_gpus(context, presence, 0.0, 1)


def _processes(gpus: Reading[GpuSet]) -> list[Any]:
    if not isinstance(gpus, Known):
        return []
    return [p for g in gpus.value.gpus if isinstance(g.processes, Known) for p in g.processes.value]


@diagnostic("memory and control groups · {context.target}")
def _host(
    context: Context, pids: list[int], now: set[int], written_at: datetime | None
) -> tuple[Reading[HostMemory], Reading[tuple[MemoryGroup, ...]], Reading[dict[int, str]]]:
    """The machine, its groups, and what runs under these numbers: those that the driver names `now`, and those that a log named
    when it was written."""
    try:
        got = run_probe(context.host, "memory_node", {"pids": pids, "share": context.limit("cgroup_share", "memory-pressure")})
    except TransportError as e:
        no = unknown(context, e, "cat /proc/meminfo")
        return no, no, no
    at = source(context, "cat /sys/fs/cgroup/**/memory.{max,current,events}")
    groups = with_new_kills(context, tuple(MemoryGroup(**g) for g in got["groups"]["list"]), got["memory"]["boot"])
    return (
        Known[HostMemory](value=HostMemory(**got["memory"]), source=source(context, "cat /proc/meminfo /sys/fs/cgroup/memory.*")),
        Known[tuple[MemoryGroup, ...]](value=groups, source=at) if got["groups"]["whole"] or groups
        else Unknown(reason=UnknownReason.FAILED, detail="too many control groups to look at all", source=at),
        _commands(context, got, pids, now, written_at),
    )  # fmt: skip


def _commands(
    context: Context, got: dict[str, Any], pids: list[int], now: set[int], written_at: datetime | None
) -> Known[dict[int, str]] | Unknown:
    """Of those that surely are the processes meant. The driver gives the machine's own numbers, in torch's message too: it has them
    from NVML (PyTorch, c10/cuda/CUDACachingAllocator.cpp, reportProcessMemoryInfo). Elsewhere they name nobody."""
    at = source(context, "cat /proc/PID/cmdline")
    if pids and got["namespace"] != MACHINE:
        inside = "inside a container: the driver's process numbers are the machine's, and name nobody here"
        return Unknown(reason=UnknownReason.DENIED, detail=inside, source=at)
    node, taken = context.node.name, context.now()

    def meant(pid: int) -> bool:
        seen_at = taken if pid in now else written_at or taken
        named = Numbered(pid=pid, host=node, namespace=MACHINE, seen_s=seen_at.timestamp())
        there = Numbered(pid=pid, host=node, namespace=got["namespace"], began_s=got["started"].get(str(pid)))
        return same_process(named, there, CLOCK_S) is Same.YES

    return Known[dict[int, str]](value={int(p): context.redactor.text(c) for p, c in got["commands"].items() if meant(int(p))}, source=at)
