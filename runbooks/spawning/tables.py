"""What a person looks at of a worker that does not come up: its row, its pod, the way in and the inside, beside all the others."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from runbooks.core.reading import Absent, Known, Unknown, value_of, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, cell, counted, row, since, table
from runbooks.parsers.runpod import Pod, Runtime
from runbooks.spawning.evidence import Evidence, PodInside

LAST = 15  # design: lines of a log, the newest ones


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The worker's own views first, then what is around it."""
    looks = e.each or (e,)
    yield table("The worker as each side sees it", "worker | side | state | what it says", (
        view for look in looks for view in _views(look)
    ), in_order=len(looks) == 1)  # fmt: skip
    yield table("Processes in the pod", "pid | worker | age | moved | command", (
        one for look in looks if isinstance(look.inside, Known) for one in _processes(look.worker, look.inside.value)
    ))  # fmt: skip
    yield table("Workers", "worker | state | created ago | heartbeat ago | pod", (
        row(w.id, w.status, _ago(e, w.created), _ago(e, w.heartbeat), w.pod_id, about=f"worker {w.id}",
            worse=_age(e, w.heartbeat or w.created))
        for w in value_or(e.workers, ())
    ))  # fmt: skip
    yield table("Pods of the provider", "pod | name | state | container | GPUs | per hour | started", (
        row(p.id, p.name, p.status or p.phase, p.runtime, _gpus(p), p.cost_per_hour, p.started_at, about=f"pod {p.id}",
            worse=p.runtime is Runtime.NULL)
        for p in value_or(e.pods, ())
    ))  # fmt: skip
    yield table("Tasks in progress", "task | state | worker | claimed ago", (
        row(t.id, t.status, t.worker, _ago(e, t.claimed), about=f"worker {t.worker}", worse=_age(e, t.claimed))
        for t in value_or(e.tasks, ())
    ))  # fmt: skip
    lines = value_or(e.pod_log, ())[-LAST:]
    yield table("The pod's log, the newest last", "line", (row(x) for x in lines), in_order=True)


def _views(e: Evidence) -> Iterator[EvidenceRow]:
    about = f"worker {e.worker}"
    own = value_of(e.row)
    told = f"created {cell(own.created)}, heartbeat {cell(own.heartbeat) or 'never'}" if own else _why(e.row)
    yield row(e.worker, "database", own.status if own else "", told, about=about)
    reads = value_or(e.pod, ())
    for read in reads:
        pod = read.pod
        said = counted((f"{pod.id}: container {pod.runtime}", f"{_gpus(pod)} GPUs", pod.last_change)) if pod else "not there"
        state, named = (pod.status or pod.phase, f"pod {pod.id}") if pod else ("", about)
        yield row(e.worker, f"provider, {cell(read.at)}", state, said, about=named)
    if not reads:
        yield row(e.worker, "provider", "", _why(e.pod), about=about)
    ssh = value_of(e.ssh)
    yield row(e.worker, "SSH", ssh.stage if ssh else "", ssh.headline if ssh else _why(e.ssh), about=about)
    inside = value_of(e.inside)
    yield row(e.worker, "inside the pod", "", _inside(inside) if inside else _why(e.inside), about=about)
    log = value_of(e.orchestrator)
    if log:
        last = f"last cycle {cell(log.last_cycle) or 'not seen'}"
        told = counted((last, *log.step_failed[-1:], *log.worker[-1:]))
        yield row(e.worker, "orchestrator", value_or(e.deployment, ""), told, about=about)


def _why(reading: Known[Any] | Absent | Unknown) -> str:
    """Why there is no value."""
    return reading.proof if isinstance(reading, Absent) else f"not read: {reading.why}" if isinstance(reading, Unknown) else "nothing"


def _inside(i: PodInside) -> str:
    free = counted(f"{size(count)} free on {path}" for path, count in i.free_bytes.items())
    log = f"its log was written {since(i.log_age_s)} ago" if i.log_age_s is not None else "no log" if not i.log_exists else "a log"
    return counted((f"{len(i.processes)} worker processes", f"{i.gpus} GPUs" if i.gpus is not None else "", log, free))


def _processes(worker: str, inside: PodInside) -> Iterator[EvidenceRow]:
    for p in inside.processes:
        yield row(p.pid, worker, since(p.age_s), "", p.command, about=f"pid {p.pid}", worse=1.0)
    for o in inside.others or ():
        moved = f"{o.cpu_s:.1f} s of CPU, {size(o.io_bytes)} in {since(inside.watched_s)}"
        yield row(o.pid, worker, since(o.age_s), moved, o.command, about=f"pid {o.pid}")


def _gpus(p: Pod) -> str:
    there = "?" if p.gpus is None else str(p.gpus)
    return f"{there} of {p.gpus_wanted}" if p.gpus_wanted is not None else there


def _age(e: Evidence, at: datetime | None) -> float:
    """Seconds since then; what never was is the oldest."""
    return (e.taken_at - at).total_seconds() if at else 1e12


def _ago(e: Evidence, at: datetime | None) -> str:
    return since(max(0.0, _age(e, at))) if at else "never"
