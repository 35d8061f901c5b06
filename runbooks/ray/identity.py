"""Which process an actor is: Ray names it by its node and by its number in the PID namespace of that node's raylet. Pure."""

from datetime import datetime

from runbooks.core.ray_view import RayNode
from runbooks.core.reading import Known, Reading, value_or
from runbooks.core.same_process import Numbered
from runbooks.ray.evidence import Actor, Evidence, NodeLogs, RayJob, WorkerActivity


def ip_of(a: Actor, nodes: Reading[tuple[RayNode, ...]]) -> str:
    """Its node's address: its death record says it, else the head's list of nodes; "" where neither does."""
    return a.ip or next((n.ip for n in value_or(nodes, ()) if a.node_id and n.node_id == a.node_id), "")


def of_job(a: Actor, job: RayJob) -> bool | None:
    """Whether it is an actor of that job. None: one of the two records does not say."""
    if job.job_id == "":
        return False
    return a.job_id == job.job_id if a.job_id and job.job_id else None


def actor_at(e: Evidence, a: Actor, n: NodeLogs, seen_at: datetime | None = None) -> Numbered | None:
    """The actor's process on that node, as Ray names it. None: it never was one, or is another node's.

    Which node it is may be unknown: then its machine is not told."""
    ip = ip_of(a, e.nodes)
    if a.pid is None or ip not in ("", n.ip):
        return None
    return Numbered(pid=a.pid, host=ip, namespace=n.namespace, seen_s=_unix(seen_at), ended_s=_unix(a.ended_at))


def worker_at(n: Known[NodeLogs], w: WorkerActivity) -> Numbered:
    """A worker as its node shows it. When it began is told by this side's clock, a little too early at most."""
    looked = _unix(n.source.taken_at) if n.source else None
    began = None if looked is None or w.age_s is None else looked + n.value.window_s - w.age_s
    return Numbered(pid=w.own_pid or w.pid, host=n.value.ip, namespace=w.namespace, began_s=began)


def _unix(at: datetime | None) -> float | None:
    return at.timestamp() if at else None
