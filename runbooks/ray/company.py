"""A Ray job with its actors, and a node with the workers on it: while one of them works, none is ended. Pure."""

from typing import TYPE_CHECKING

from runbooks.core.members import node
from runbooks.core.reading import Known, value_of
from runbooks.core.same_process import Same, same_process
from runbooks.core.verdict import Group
from runbooks.ray.actors import node_logs
from runbooks.ray.evidence import Evidence, NodeLogs, RayJob, WorkerActivity
from runbooks.ray.identity import actor_at, of_job, worker_at

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
    job = value_of(e.job)
    if job is None:
        return ()
    busy = [w for n in e.node_logs if isinstance(n, Known) for w in _moving(n.value, limits) if _may_be_of(e, job, n, w)]
    name = f"job {job.submission_id}"
    return (Group(name=name, members=(name,), ties=("actors of one job",), at_work=_words(busy)),)


def _may_be_of(e: Evidence, job: RayJob, n: Known[NodeLogs], w: WorkerActivity) -> bool:
    """Whether that worker is one of the job's living actors, or nobody can tell: then it is not ended either."""
    listed = e.actors.source.taken_at if isinstance(e.actors, Known) and e.actors.source else None
    mine = [a for a in value_of(e.actors) or () if a.state == "ALIVE" and of_job(a, job) is not False]
    named = [x for x in (actor_at(e, a, n.value, listed) for a in mine) if x is not None]
    return any(same_process(x, worker_at(n, w), 0.0) is not Same.NO for x in named)


def _moving(n: NodeLogs, limits: "Limits") -> list[WorkerActivity]:
    return [a for a in n.activity if a.cpu_s >= limits.cpu_moving_s or a.read_bytes >= limits.read_moving_bytes]


def _words(busy: list[WorkerActivity]) -> tuple[str, ...]:
    return tuple(f"pid {a.pid} on {a.node} is at work: {a.cpu_s:.1f} s of CPU, {a.read_bytes >> 20} MiB read" for a in busy)
