"""Starts a job of the fleet file again on its node, detached, by its configured command."""

from runbooks.core.args.nodes import RestartJob
from runbooks.core.by_hand import detached
from runbooks.core.fleet import Job
from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.arguments import takes
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import change
from tasks.remote.probe import redact
from tasks.transport.base import TransportError

WATCH_S = 2.0  # how long a start is watched for dying at once


@takes(RestartJob)
def restart_job(args: RestartJob, context: Context) -> ActionResult:
    """Run the job's restart command on the context's node; says its pid and where its output goes.

    Refused when the fleet file's command is not the planned one, or a process that matches the job already runs.
    """
    job = _job(context, args.job)
    if tuple(job.restart) != args.argv:
        raise ActionRefused(RefusalCode.CONFIG, f"the fleet file's restart command of {job.name} is not the one that was planned")
    ask = {"job": job.name, "argv": list(job.restart), "match": job.match, "watch_s": WATCH_S}
    got = change(context, context.host, "start_job", ask, timeout_s=WATCH_S + 20)
    if got["exit"] not in (None, 0):
        tail = redact(context, got["tail"]).strip()
        raise TransportError(
            UnknownReason.FAILED, f"{job.name} ended at once with {got['exit']}; {got['log']}: {tail}", detached(args.argv)
        )
    running = ", ".join(str(r["pid"]) for r in got["running"])
    said = (
        f"started as pid {got['pid']} (start tick {got['start_ticks']}, boot {got['boot_id']}); output in {got['log']}"
    )
    if got["exit"] == 0:
        said = f"the start command ended with 0; output in {got['log']}"
    more = [f"pid {pid} was started by somebody else in the same moment: it may run twice" for pid in got["others"]]
    if got["exit"] == 0:
        more = []  # its start command ended, and who started what is left can't be told
    now = f"processes of {job.name} now: {running or 'none seen yet'}"
    known = got["exit"] is None and got["start_ticks"] is not None  # else what was started is not the job's own process
    started = {name: got[name] for name in ("pid", "start_ticks", "boot_id")} if known else {}
    return ActionResult(said=(f"job {job.name}: {said}", now, *more), facts=started)


def _job(context: Context, name: str) -> Job:
    for job in context.fleet.jobs_on(context.node.name):
        if job.name == name:
            return job
    raise ActionRefused(RefusalCode.CONFIG, f"the fleet file has no job {name!r} on {context.node.name}")
