"""Reads processes of a node over a window: GPU holders, their families, jobs, and the node's own facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from runbooks.core.fleet import Job
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.gpu.evidence import Facts, Inside, InsideProcess, Process
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import redact, run_probe, source, unknown
from tasks.transport.base import TransportError

COMMAND = "ps -eo pid,ppid,pgid,sid,stat,etimes,time,wchan,args; cat /proc/PID/{stat,io,status}; ls -l /proc/PID/fd"
CAP = 400  # processes that are described
LOOKS = 6  # at the states, the window's two ends included


@dataclass(frozen=True)
class ProcessReadings:
    """One probe's answer as readings."""

    facts: Known[Facts] | Unknown
    processes: Known[tuple[Process, ...]] | Unknown
    holders: Known[tuple[int, ...]] | Unknown
    window_s: float
    inside: Known[tuple[Inside, ...]] | Unknown


@diagnostic("processes over {window_s:g} s · {context.target}")
def read_processes(context: Context, window_s: float, pids: Sequence[int], jobs: Sequence[Job]) -> ProcessReadings:
    """Two looks `window_s` apart (one when it is 0). `pids`: those that the driver names."""
    ask = {
        "window_s": window_s,
        "looks": LOOKS if window_s else 1,
        "pids": sorted(set(pids)),
        "jobs": [{"name": j.name, "match": j.match} for j in jobs],
        "cap": CAP,
    }
    try:
        got = run_probe(context.host, "processes", ask, timeout_s=window_s + 40)
        return _readings(context, got)
    except TransportError as e:
        no = unknown(context, e, COMMAND)
        return ProcessReadings(no, no, no, 0.0, no)


def _readings(context: Context, got: dict[str, Any]) -> ProcessReadings:
    f, at = got["facts"], source(context, COMMAND, f"window {got['window_s']:.1f} s")
    try:
        facts = Facts(**{k: v for k, v in f.items() if k != "container_proof"})
        found = tuple(_process(context, p) for p in got["processes"])
    except ValidationError as e:
        no = Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e)[:500], source=at)
        return ProcessReadings(no, no, no, 0.0, no)
    lines = "\n".join(f"{p.pid} {p.ppid} {p.state} {p.age_s:.0f}s {p.command[:120]}" for p in found[:40])
    shown = source(context, COMMAND, lines)
    facts_at = source(context, "cat /proc/sys/kernel/random/boot_id /proc/uptime", f["container_proof"])
    known = Known[tuple[Process, ...]](value=found, source=shown)
    all_of_it = _cut(known, got) if got["left_out"] else known
    return ProcessReadings(
        Known[Facts](value=facts, source=facts_at), all_of_it, _holders(got, f, context), got["window_s"], _inside(context, got)
    )


def _inside(context: Context, got: dict[str, Any]) -> Known[tuple[Inside, ...]] | Unknown:
    """Of every container here; a look without a window shows nothing that moves."""
    at = source(context, "grep -l ID /proc/*/cgroup; cat /proc/PID/{stat,io}", f"containers: {len(got['inside'])}")
    if not got["window_s"]:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="it was looked only once", source=at)
    return Known[tuple[Inside, ...]](value=tuple(_box(context, box) for box in got["inside"]), source=at)


def _box(context: Context, box: dict[str, Any]) -> Inside:
    most = tuple(InsideProcess(**{**p, "command": redact(context, p["command"])}) for p in box["most"])
    return Inside(container=box["container"], others=box["others"], unread=tuple(box["unread"]), most=most)


def _cut(known: Known[tuple[Process, ...]], got: dict[str, Any]) -> Unknown:
    detail = f"{got['left_out']} more processes belong to jobs than the {CAP} that are read"
    return Unknown(reason=UnknownReason.FAILED, detail=detail, source=known.source)


def _process(context: Context, p: dict[str, Any]) -> Process:
    clean = {k: redact(context, p[k]) for k in ("command", "parent_command")}
    lists = {k: tuple(p[k]) for k in ("states", "children", "live_children", "ns_pids", "nvidia_fds", "listening")}
    run = None if p["run"] is None else {k: redact(context, v) for k, v in p["run"].items()}
    return Process(**{**p, **clean, **lists, "run": run, "writing": tuple(redact(context, w) for w in p["writing"])})


def _holders(got: dict[str, Any], facts: dict[str, Any], context: Context) -> Known[tuple[int, ...]] | Unknown:
    """Who has /dev/nvidia* open; Unknown when descriptors or namespaces were out of sight."""
    at = source(context, "ls -l /proc/*/fd | grep /dev/nvidia", f"pids {got['holders']}")
    seen = ", ".join(map(str, got["holders"])) or "none"
    if got["denied"]:
        detail = f"descriptors of {got['denied']} processes may not be read (run as root); seen: {seen}"
        return Unknown(reason=UnknownReason.DENIED, detail=detail, source=at)
    if facts["in_container"]:
        detail = f"inside a container, processes outside are out of sight ({facts['container_proof']}); seen: {seen}"
        return Unknown(reason=UnknownReason.DENIED, detail=detail, source=at)
    return Known[tuple[int, ...]](value=tuple(got["holders"]), source=at)
