"""A Ray job with its actors, and a node with the workers on it: while one of them works, none is ended. Pure."""

from typing import TYPE_CHECKING

from runbooks.core.members import node
from runbooks.core.verdict import Group
from runbooks.ray.actors import node_logs
from runbooks.ray.evidence import Evidence, NodeLogs, WorkerActivity
from runbooks.ray.words import known

if TYPE_CHECKING:
    from runbooks.ray.limits import Limits


def groups(e: Evidence, limits: "Limits") -> tuple[Group, ...]:
    """The job that was judged, and every node whose processes were looked at."""
    nodes = tuple(
        Group(name=f"node {n.node}", members=(node(n.node),), ties=("workers end with their raylet",), at_work=_words(_moving(n, limits)))
        for n in node_logs(e)
    )
    return (*_job(e, limits), *nodes)


def _job(e: Evidence, limits: "Limits") -> tuple[Group, ...]:
    job = known(e.job)
    if job is None:
        return ()
    mine = {(a.ip, a.pid) for a in known(e.actors) or () if a.job_id and a.job_id == job.job_id and a.state == "ALIVE"}
    busy = [a for n in node_logs(e) for a in _moving(n, limits) if (n.ip, a.pid) in mine]
    name = f"job {job.submission_id}"
    return (Group(name=name, members=(name,), ties=("actors of one job",), at_work=_words(busy)),)


def _moving(n: NodeLogs, limits: "Limits") -> list[WorkerActivity]:
    return [a for a in n.activity if a.cpu_s >= limits.cpu_moving_s or a.read_bytes >= limits.read_moving_bytes]


def _words(busy: list[WorkerActivity]) -> tuple[str, ...]:
    return tuple(f"pid {a.pid} on {a.node} is at work: {a.cpu_s:.1f} s of CPU, {a.read_bytes >> 20} MiB read" for a in busy)
