"""What a person looks at of a Ray job: the cluster's nodes, its actors, what is used of what there is, and what its processes do."""

from collections.abc import Iterator

from runbooks.core.reading import Known, value_of, value_or
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, since, spark, table
from runbooks.ray.evidence import Evidence, NodeLogs, RayJob

BYTES = ("memory", "object_store_memory")  # resources that Ray counts in bytes
WAITS = ("PENDING", "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING", "RESCHEDULING", "PREPARED")


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The jobs first, then where they run."""
    job = value_of(e.job)
    jobs = [*([_job(job, 1.0)] if job else []), *(_job(j, 0.0) for j in value_or(e.other_jobs, ()))]
    yield table("Jobs", "job | state | began | ended | asks for | message", jobs)
    logs = [r.value for r in e.node_logs if isinstance(r, Known)]
    names = {n.ip: n.node for n in logs}
    yield table("Nodes of the cluster", "node | address | alive | head | resources | message", (
        row(names.get(n.ip, n.node_id[:12]), n.ip, n.alive, n.is_head, _resources(n.resources), n.message,
            about=(names.get(n.ip, n.ip), n.ip, n.node_id[:12]), worse=not n.alive)
        for n in value_or(e.nodes, ())
    ))  # fmt: skip
    yield table("Actors", "actor | pid | state | where | asks for | how it died", (
        row(a.name or a.class_name, a.pid, a.state, names.get(a.ip, a.ip or a.node_id[:12]), _resources(a.resources),
            f"{a.death_reason} {a.death_message}".strip(),
            about=(f"{a.class_name} pid {a.pid}", a.actor_id), worse=2.0 if a.state == "DEAD" else float(a.state in WAITS))
        for a in value_or(e.actors, ())
    ))  # fmt: skip
    usage = value_of(e.usage)
    yield table("Used of what there is", "share | resource | used | total", (
        row(spark([100 * used / total], "%", 100) if total else "", name, *_amounts(name, used, total), worse=used / total if total else 0)
        for name, (used, total) in (usage.usage.items() if usage else ()) if not name.startswith("node:")
    ))  # fmt: skip
    yield table("Placement groups", "group | state | bundles", (
        row(g.name or g.id[:12], g.state, counted(map(_resources, g.bundles)), about=(g.id, g.name), worse=g.state in WAITS)
        for g in value_or(e.groups, ())
    ))  # fmt: skip
    yield from _on_nodes(e, logs)


def _job(job: RayJob, worse: float) -> EvidenceRow:
    cells = (job.submission_id or job.job_id, job.status, job.started_at, job.ended_at, _resources(job.resources), job.message)
    return row(*cells, about=f"job {job.submission_id}", worse=worse)


def _on_nodes(e: Evidence, logs: list[NodeLogs]) -> Iterator[EvidenceTable]:
    """What Ray's own processes and the job's do there."""
    yield table("Raylets", "node | alive | its log's age | GPU use | disk free | Ray | Python", (
        row(n.node, n.raylet_alive, since(n.raylet_age_s), spark(n.gpu_use or (), "%", 100.0),
            size(n.disk_free_bytes) if n.disk_free_bytes is not None else "", n.versions.ray, n.versions.python, about=n.node,
            worse=n.raylet_alive is False)
        for n in logs
    ))  # fmt: skip
    yield table("Worker processes", "pid | node | CPU in the window | read | state | command", (
        row(a.pid, n.node, f"{a.cpu_s:.2f} s of {since(n.window_s)}", size(a.read_bytes), a.state, a.command,
            about=f"pid {a.pid} on {n.node}", worse=-a.cpu_s)
        for n in logs for a in n.activity
    ))  # fmt: skip
    yield table("Logs, the longest silent first", "log | node | last write ago | size | last line", (
        row(log.path, n.node, since(log.age_s), size(log.size_bytes), value_or(log.lines, ())[-1:], worse=log.age_s)
        for n in logs for log in value_or(n.logs, ())
    ))  # fmt: skip
    head = value_of(e.head)
    served = (("GCS", head.gcs), ("dashboard", head.dashboard)) if head else ()
    yield table("The head", "server | at | answer | said | pid | state", (
        row(name, s.at, s.answer, s.said, s.pid, s.state, worse=s.answer != "answers") for name, s in served
    ))  # fmt: skip


def _resources(given: dict[str, float]) -> str:
    return counted(f"{size(v) if name in BYTES else f'{v:g}'} {name}" for name, v in given.items() if not name.startswith("node:"))


def _amounts(name: str, used: float, total: float) -> tuple[str, str]:
    return (size(used), size(total)) if name in BYTES else (f"{used:g}", f"{total:g}")
