"""Resets what the leader counts for a node, once its processes are proven gone."""

from typing import Any

from runbooks.core.args.nodes import ResetNodeJobs
from runbooks.core.fleet import Leader
from runbooks.core.reading import Unknown, UnknownReason
from runbooks.core.refusal import RefusalCode
from runbooks.gpu.parsers.leader_status import LeaderStatus
from tasks.arguments import takes
from tasks.context import ActionRefused, ActionResult, Context
from tasks.gpu.leader import read_status, without_login
from tasks.remote.probe import redact, run_probe
from tasks.transport.base import TransportError
from tasks.transport.http import HttpReader

PATH = "/admin/reset_node_jobs"


@takes(ResetNodeJobs)
def reset_node_jobs(args: ResetNodeJobs, context: Context) -> ActionResult:
    """POST <leader>/admin/reset_node_jobs for one node; says its count before and after.

    Refused when a listed process lives, a process matches a job of the node, the asked one is not the leader, or the
    fleet file names another leader. The window that remains: a job that starts between the proof and the POST; it is
    looked for afterwards, and the step has failed then.
    """
    leader, node = _leader(args, context), args.node
    proof = _nothing_runs(args, context)
    before = _status(context, leader)
    if not before.is_leader:
        raise ActionRefused(RefusalCode.TARGET_CHANGED,
            f"{before.node_id or leader.url} is not the leader (that is {before.leader_id or 'unknown'})")
    count = _count(before, node)
    if count is None:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the leader knows no node {node}")
    if count == 0:
        return ActionResult(said=(proof, f"the leader counts 0 jobs on {node} already; nothing was posted"))
    http = HttpReader(leader.url, context.redactor, token_env=leader.token_env, timeout_s=leader.timeout_s)
    try:
        http.post(PATH, {"node_id": node})
    finally:
        http.close()
    _started_meanwhile(args, context)
    after = _count(_status(context, leader), node)
    if after:
        raise TransportError(UnknownReason.FAILED, f"the leader still counts {after} jobs on {node} after the reset", PATH)
    return ActionResult(said=(proof, f"the leader counted {count} jobs on {node} and counts {after or 0} now"))


def _leader(args: ResetNodeJobs, context: Context) -> Leader:
    leader = context.fleet.leader
    if leader is None or without_login(leader.url.rstrip("/")) != args.leader_url.rstrip("/"):
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file does not name the leader that was judged")
    return leader


def _nothing_runs(args: ResetNodeJobs, context: Context) -> str:
    """Proof, on the node itself, that nothing the count could stand for is there. Raises ActionRefused."""
    got = _alive(args, context)
    if got["live"]:
        raise ActionRefused(
            RefusalCode.IN_USE, f"pid {', '.join(str(p['pid']) for p in got['live'])} still lives (state {got['live'][0]['state']})"
        )
    if got["running"]:
        raise ActionRefused(RefusalCode.IN_USE, _runs(context, got))
    listed = ", ".join(str(p.pid) for p in args.gone) or "no process was listed"
    names = ", ".join(j.name for j in context.fleet.jobs_on(context.node.name))
    return f"on {context.node.name}: gone ({listed}); no process matches {names}"


def _started_meanwhile(args: ResetNodeJobs, context: Context) -> None:
    """Raises TransportError when a job has begun on the node while the leader was told that there is none."""
    got = _alive(args, context)
    if got["running"]:
        words = f"{_runs(context, got)}: it began in this very moment, and the leader does not count it now"
        raise TransportError(UnknownReason.FAILED, words, PATH)


def _runs(context: Context, got: dict[str, Any]) -> str:
    first = got["running"][0]
    return f"pid {first['pid']} runs a job of the node: {redact(context, first['command'])[:120]}"


def _alive(args: ResetNodeJobs, context: Context) -> dict[str, Any]:
    """What lives of the listed processes and of the node's jobs. Raises ActionRefused."""
    jobs = context.fleet.jobs_on(context.node.name)
    if not jobs:
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file has no job pattern for this node: that nothing runs can't be proven")
    ask = args.plain("gone", "boot_id") | {"matches": [j.match for j in jobs]}
    return run_probe(context.host, "gone", ask)


def _status(context: Context, leader: Leader) -> LeaderStatus:
    found = read_status(context, leader)
    if isinstance(found, Unknown):
        raise TransportError(found.reason, f"the leader's /status: {found.detail}", f"GET {leader.url}/status")
    return found.value


def _count(status: LeaderStatus, node: str) -> int | None:
    return next((p.jobs for p in status.peers if p.node == node), None)
