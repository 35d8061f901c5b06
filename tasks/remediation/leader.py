"""Resets what the leader counts for a node, once its processes are proven gone."""

from runbooks.core.fleet import Leader
from runbooks.core.plan import Step
from runbooks.core.reading import Unknown, Why
from runbooks.parsers.leader_status import LeaderStatus
from tasks.context import ActResult, Context, Refused
from tasks.diagnostics.leader import read_status, without_login
from tasks.diagnostics.probe import redact, run_probe
from tasks.transport.base import TransportError
from tasks.transport.http import HttpReader

PATH = "/admin/reset_node_jobs"


def reset_node_jobs(step: Step, context: Context) -> ActResult:
    """POST <leader>/admin/reset_node_jobs for one node; says its count before and after.

    Refused when a listed process lives, a process matches a job of the node, the asked one is not the leader, or the
    fleet file names another leader. The window that remains: a job that starts between the proof and the POST is
    counted anew by its own registration.
    """
    leader, node = _leader(step, context), step.args["node"]
    proof = _nothing_runs(step, context)
    before = _status(context, leader)
    if not before.is_leader:
        raise Refused(f"{before.node_id or leader.url} is not the leader (that is {before.leader_id or 'unknown'})")
    count = _count(before, node)
    if count is None:
        raise Refused(f"the leader knows no node {node}")
    if count == 0:
        return ActResult(said=(proof, f"the leader counts 0 jobs on {node} already; nothing was posted"))
    http = HttpReader(leader.url, context.redactor, token_env=leader.token_env, timeout_s=leader.timeout_s)
    try:
        http.post(PATH, {"node_id": node})
    finally:
        http.close()
    after = _count(_status(context, leader), node)
    if after:
        raise TransportError(Why.FAILED, f"the leader still counts {after} jobs on {node} after the reset", PATH)
    return ActResult(said=(proof, f"the leader counted {count} jobs on {node} and counts {after or 0} now"))


def _leader(step: Step, context: Context) -> Leader:
    leader = context.fleet.leader
    if leader is None or without_login(leader.url.rstrip("/")) != step.args["leader_url"].rstrip("/"):
        raise Refused("the fleet file does not name the leader that was judged")
    return leader


def _nothing_runs(step: Step, context: Context) -> str:
    """Proof, on the node itself, that nothing the count could stand for is there. Raises Refused."""
    jobs = context.fleet.jobs_on(context.node.name)
    if not jobs:
        raise Refused("the fleet file has no job pattern for this node: that nothing runs can't be proven")
    ask = {"gone": step.args["gone"], "boot_id": step.args["boot_id"], "matches": [j.match for j in jobs]}
    got = run_probe(context.host, "gone", ask)
    if got["live"]:
        raise Refused(
            f"pid {', '.join(str(p['pid']) for p in got['live'])} still lives (state {got['live'][0]['state']})"
        )
    if got["running"]:
        first = got["running"][0]
        raise Refused(f"pid {first['pid']} runs a job of the node: {redact(context, first['command'])[:120]}")
    listed = ", ".join(str(p["pid"]) for p in step.args["gone"]) or "no process was listed"
    return f"on {context.node.name}: gone ({listed}); no process matches {', '.join(j.name for j in jobs)}"


def _status(context: Context, leader: Leader) -> LeaderStatus:
    found = read_status(context, leader)
    if isinstance(found, Unknown):
        raise TransportError(found.reason, f"the leader's /status: {found.detail}", f"GET {leader.url}/status")
    return found.value


def _count(status: LeaderStatus, node: str) -> int | None:
    return next((p.jobs for p in status.peers if p.node == node), None)
