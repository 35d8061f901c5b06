"""Faults of the cluster that hold a job up: head, nodes, raylets, free resources, and leftovers that hold them."""

from typing import TYPE_CHECKING

from runbooks.core.ray_view import STATES, Versions, differ, head_fault
from runbooks.core.reading import Known, Unknown, value_of, value_or
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.evidence import Actor, Evidence, NodeLogs, RayJob
from runbooks.ray.parsers.ray_autoscaler import repeated, stale_instance
from runbooks.ray.words import cause

if TYPE_CHECKING:
    from runbooks.ray.limits import Limits

SURE = Certainty.CONFIRMED
NAME = "_ray_internal_job_actor_"  # a supervisor's name is this and the submission id


def judge_cluster(e: Evidence, limits: "Limits") -> list[Cause]:
    """Head, nodes and raylets."""
    fault = head_fault(e.head, e.nodes)
    if fault and (fault.slug != "head-unreachable" or isinstance(e.job, Unknown)):  # a job that was read came from the head
        return [cause(fault.slug, fault.certainty, f"the head on {e.cluster}", *fault.evidence, *_killed(e, fault.slug),
                      decides=fault.decides)]  # fmt: skip
    found = [*judge_autoscaler(e, limits), *_versions(e), *(x for r in e.node_logs if isinstance(r, Known) for x in _raylet(e, r.value))]
    if e.head_seconds > limits.head_slow_s:
        words = f"its lists took {e.head_seconds:.0f} s"
        found.append(cause("head-overloaded", Certainty.LIKELY, f"the head on {e.cluster}", words))
    return found + _not_joined(e)


def _killed(e: Evidence, slug: str) -> tuple[str, ...]:
    """The kernel's word on a GCS that is gone."""
    nodes = [r.value for r in e.node_logs if isinstance(r, Known) and r.value.node == e.cluster]
    kills = [k for n in nodes for k in value_or(n.ooms, ()) if k.process.startswith("gcs_server")]
    return (f"kernel: {kills[-1].text}",) if kills and slug == "head-gone" else ()


def _versions(e: Evidence) -> list[Cause]:
    """Nodes whose Ray or Python is another than the head's."""
    head = value_of(e.head)
    there = head.versions if head else Versions()
    found = []
    for n in (r.value for r in e.node_logs if isinstance(r, Known)):
        joined = any(x.ip == n.ip and x.alive for x in value_of(e.nodes) or ())
        words = differ(there, n.versions, joined)
        if words:
            more = "it is a node all the same: jobs on it may fail" if joined else "the head lists no living node there"
            found.append(cause("version-mismatch", Certainty.CONFIRMED, n.node, words, more))
    return found


def _raylet(e: Evidence, node: NodeLogs) -> list[Cause]:
    listed = [n for n in value_of(e.nodes) or () if n.ip == node.ip]
    if not listed or node.raylet_alive is None:
        return []
    if any(n.alive for n in listed):
        return _stopped(node)
    last = max(listed, key=lambda n: n.ended_at.timestamp() if n.ended_at else 0.0)
    age = f"raylet.out was last written {node.raylet_age_s:.0f} s ago" if node.raylet_age_s is not None else ""
    if node.raylet_alive:
        state = STATES.get(node.raylet_state, "")
        return [cause("raylet-stuck", Certainty.CONFIRMED, node.node, f"the head lists {node.ip} as DEAD: {last.message}",
                      f"its raylet runs there{f': {state}' if state else ''}", age)]  # fmt: skip
    return [cause("raylet-dead", Certainty.CONFIRMED, node.node, f"the head lists {node.ip} as DEAD: {last.message}",
                  "no raylet runs there", age)]  # fmt: skip


def _stopped(node: NodeLogs) -> list[Cause]:
    """A raylet that a signal stopped, on a node that the head still lists as ALIVE."""
    if node.raylet_halted is None:
        return []
    words = f"its raylet, pid {node.raylet_halted.pid}, is stopped by a signal (state T)"
    still = f"the head still lists {node.ip} as ALIVE; it marks the node DEAD after failed health checks"
    return [cause("raylet-stuck", Certainty.CONFIRMED, node.node, words, still)]


def _not_joined(e: Evidence) -> list[Cause]:
    nodes = value_of(e.nodes)
    if nodes is None or not e.expected:
        return []
    have: dict[str, float] = {}
    for n in nodes:
        if n.alive:
            for name, amount in n.resources.items():
                have[name] = have.get(name, 0) + amount
    short = {k: (have.get(k, 0.0), v) for k, v in e.expected.items() if have.get(k, 0.0) < v}
    if not short:
        return []
    words = ", ".join(f"{k}: {got:g} of {want:g}" for k, (got, want) in short.items())
    alive, usage = sum(n.alive for n in nodes), value_of(e.usage)
    awaited = f"nodes that the autoscaler waits for: {', '.join(usage.coming)}" if usage and usage.coming else ""
    sure, check = (Certainty.LIKELY, ("whether they join: the autoscaler's log (monitor.log on the head)",)) if awaited else (SURE, ())
    return [cause("nodes-missing", sure, f"cluster {e.cluster}", f"resources joined: {words}",
                  f"{alive} of {len(nodes)} listed nodes are alive", awaited, decides=check)]  # fmt: skip


def judge_autoscaler(e: Evidence, limits: "Limits") -> list[Cause]:
    """One that fails at every turn brings and takes nothing, for the whole cluster."""
    found = []
    for n in (r.value for r in e.node_logs if isinstance(r, Known)):
        lines = value_or(n.autoscaler.lines, ()) if n.autoscaler else ()
        again = repeated(lines)
        if n.autoscaler is None or again is None or n.autoscaler.age_s > limits.autoscaler_silent_s:
            continue
        words = [f"{again.times} times in its log, last {n.autoscaler.age_s:.0f} s ago: {again.line[:300]}"]
        record = stale_instance("\n".join(lines))
        ids = {x.node_id for x in value_of(e.nodes) or () if x.alive}
        stale = record is not None and isinstance(e.nodes, Known) and record.node_id not in ids
        if record is not None and stale:
            what = f"its record of instance {record.cloud_id} says {record.status}"
            words.append(f"{what} with node {record.node_id[:12]}…, which the head does not list as alive")
        sure = Certainty.CONFIRMED if stale else Certainty.LIKELY
        check = () if stale else ("the first error in monitor.log on the head, from its beginning",)
        found.append(cause("autoscaler-stuck", sure, f"the autoscaler on {n.node}", *words, decides=check))
    return found


def holders(e: Evidence, name: str) -> tuple[str, ...]:
    """Who holds a resource: living actors and created placement groups, in words."""
    actors = [a for a in value_of(e.actors) or () if a.state == "ALIVE" and a.resources.get(name)]
    groups = [g for g in value_of(e.groups) or () if g.state == "CREATED" and any(b.get(name) for b in g.bundles)]
    words = [f"{a.class_name} (job {a.job_id}, pid {a.pid}, {a.ip}): {a.resources[name]:g} {name}" for a in actors]
    return (*words, *(f"placement group {g.name or g.id[:12]} (job {g.job_id})" for g in groups))


def judge_leftovers(e: Evidence, job: RayJob) -> list[Cause]:
    """A supervisor that started after its job had failed, and holds what it asked for."""
    left = [a for a in value_of(e.actors) or () if a.name == NAME + job.submission_id and a.state == "ALIVE"]
    if job.status != "FAILED" or not left:
        return []
    return [_leftover(job, a) for a in left]


def _leftover(job: RayJob, a: Actor) -> Cause:
    held = ", ".join(f"{v:g} {k}" for k, v in a.resources.items()) or "its slot"
    words = f"the job is FAILED ({job.error_type or job.message[:80]}) and its supervisor {a.actor_id} is ALIVE"
    return cause("supervisor-left", Certainty.CONFIRMED, f"job {job.submission_id}", words, f"it holds {held}",
                 f"pid {a.pid} on {a.ip}" if a.pid else "")  # fmt: skip
