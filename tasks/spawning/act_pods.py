"""Ends or stops one pod by its id, or starts the worker in it, after reading again that it is what was judged."""

from collections.abc import Callable

from runbooks.core.args.workers import EndPod, StartWorker
from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from runbooks.core.times import utc
from runbooks.core.worker_ids import is_plain
from runbooks.parsers.runpod import Pod
from runbooks.parsers.worker_rows import TaskRow, WorkerRow
from tasks.arguments import takes
from tasks.clients.asked import orchestrator_of
from tasks.clients.pod_trust import FIRST_SEEN, pod_node, trust_of
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.clients.worker_db import open_db
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import change
from tasks.remote.unseen import UNSEEN
from tasks.spawning.read import start_argv
from tasks.transport.base import TransportError

WATCH_S = 2.0  # how long a start is watched for dying at once


@takes(EndPod)
def terminate_pod(args: EndPod, context: Context) -> ActionResult:
    """End one pod for good, by its id.

    Refused when it is gone already, locked, not this orchestrator's, in another state or on another machine than was
    judged, its worker reports, or it holds other tasks than were shown; the pod is read before and after its worker's rows. Between
    that reading and the call a moment remains: what the worker took in it is named, and the step has failed."""
    return _end(args, context, "ended", RunPodClient.terminate)


@takes(EndPod)
def stop_pod(args: EndPod, context: Context) -> ActionResult:
    """Stop one pod, by its id; its volume disk stays. Refused as ending it is."""
    return _end(args, context, "stopped", RunPodClient.stop)


def _end(a: EndPod, context: Context, done: str, call: Callable[[RunPodClient, str], None]) -> ActionResult:
    config = orchestrator_of(context)
    client = RunPodClient(config.runpod, context.redactor)
    try:
        _same(_read(client, a.pod), a, config)
        _claims(context, config, a.worker, a.tasks)
        _silent(context, config, a.worker)
        _rows_as_read(context, config, a)
        _same(_read(client, a.pod), a, config)  # a database may take its time
        try:
            call(client, a.pod)
        except NotFound:
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"pod {a.pod} was gone when it was to be {done}; nothing was done") from None
        except TransportError as e:
            raise RuntimeError(f"whether pod {a.pod} was {done} is not known: {e}") from e
        left = _left(client, a.pod)
    finally:
        client.close()
    told = f"pod {a.pod} was {done}; the provider now says: {left}"
    return ActionResult(said=(told, *_taken(context, config, a, told), UNSEEN))


def _taken(context: Context, config: Orchestrator, a: EndPod, told: str) -> tuple[str, ...]:
    """A sentence where the tasks cannot be read again. Raises TransportError when the worker took one in that very moment."""
    try:
        _claims(context, config, a.worker, a.tasks)
    except ActionRefused as e:
        if e.code is RefusalCode.IN_USE:
            raise TransportError(UnknownReason.FAILED, f"{told}; in this very moment its worker took a task: {e}") from None
        return (f"whether its worker took a task in that moment is not known: {e}",)
    return ()


def _read(client: RunPodClient, pod_id: str) -> Pod:
    try:
        return client.pod(pod_id)
    except NotFound:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"pod {pod_id} is gone already") from None
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"pod {pod_id} could not be read again: {e}") from None


def _same(pod: Pod, a: EndPod, config: Orchestrator) -> None:
    if pod.locked:
        raise ActionRefused(RefusalCode.HANDS_OFF, f"pod {pod.id} is locked")
    if pod.name != a.name or not pod.name.startswith(config.runpod.name_prefix):
        raise ActionRefused(
            RefusalCode.NOT_OURS, f"pod {pod.id} is named {pod.name!r}: not the one that was judged, or not this orchestrator's"
        )
    if pod.status != a.status or pod.machine_id != a.machine:
        raise ActionRefused(
            RefusalCode.TARGET_CHANGED, f"pod {pod.id} is now {pod.status} on machine {pod.machine_id or '?'}; it was judged as {a.status}"
        )


def _claims(context: Context, config: Orchestrator, worker: str, shown: tuple[str, ...]) -> None:
    """Refuses when the worker holds other tasks than the person was shown."""
    try:
        tasks: tuple[TaskRow, ...] = open_db(config.database, context.redactor).tasks()
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the tasks in progress could not be read again: {e}") from None
    held = sorted(t.id for t in tasks if t.worker == worker)
    if set(held) - set(shown):
        raise ActionRefused(RefusalCode.IN_USE, f"worker {worker} holds {', '.join(held[:5])}, which was not shown when this was decided")


def _silent(context: Context, config: Orchestrator, worker: str) -> None:
    """Refuses for a worker that reports."""
    try:
        row = open_db(config.database, context.redactor).worker(worker)
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the worker's row could not be read again: {e}") from None
    if row is not None:
        _no_heartbeat(context, row)


def _no_heartbeat(context: Context, row: WorkerRow) -> None:
    """Refuses for a row with a fresh heartbeat."""
    limit = float(context.limits["heartbeat_s"])
    if row.heartbeat is not None and (context.now() - row.heartbeat).total_seconds() <= limit:
        raise ActionRefused(RefusalCode.IN_USE, f"worker {row.id} reports: its last heartbeat was at {utc(row.heartbeat)}")


def _rows_as_read(context: Context, config: Orchestrator, a: EndPod) -> None:
    """Where the plan says which rows own the pod: refuses when others do by now, one has another status, or one reports."""
    if a.rows is None:
        return
    try:
        rows = open_db(config.database, context.redactor).all_workers()
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the workers' rows could not be read again: {e}") from None
    if not rows:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, "the table of workers is empty now: an empty list says nothing of who owns the pod")
    mine = [r for r in rows if r.pod_id == a.pod or r.id == a.name]
    now, then = ({(r.id, r.status, r.pod_id) for r in mine}, {(r.worker, r.status, r.pod) for r in a.rows})
    if now != then:
        who = ", ".join(sorted({x[0] for x in now ^ then})[:5])
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the rows that own pod {a.pod} are not as they were judged: {who}")
    for row in mine:
        _no_heartbeat(context, row)


def _left(client: RunPodClient, pod_id: str) -> str:
    try:
        pod = client.pod(pod_id)
    except NotFound:
        return "no such pod"
    except TransportError as e:
        return f"no answer ({e.reason})"
    return f"{pod.status} {pod.last_change}".strip()


@takes(StartWorker)
def start_worker(a: StartWorker, context: Context) -> ActionResult:
    """Start the worker in its pod, as `start_worker_unverified` does. Refused also when nothing vouches for the pod's host key."""
    return _start(a, context, vouched=True)


@takes(StartWorker)
def start_worker_unverified(a: StartWorker, context: Context) -> ActionResult:
    """Start the worker in its pod, detached, under a lock file.

    Refused when one runs, it holds a task, the pod was booted again, or its host key is not the recorded one."""
    return _start(a, context, vouched=False)


def _start(a: StartWorker, context: Context, vouched: bool) -> ActionResult:
    config = orchestrator_of(context)
    if not is_plain(a.worker):
        raise ActionRefused(RefusalCode.NOT_SUPPORTED, "the worker's id is none that may stand in a command")
    if tuple(start_argv(config, a.worker)) != a.argv:
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file's start command is not the one that was planned")
    _claims(context, config, a.worker, ())
    client = RunPodClient(config.runpod, context.redactor)
    try:
        pod = _read(client, a.pod)
    finally:
        client.close()
    trust = trust_of(config.ssh, pod.id)
    if not trust.key or not pod.ip or not pod.ssh_port:
        raise ActionRefused(RefusalCode.NOT_SUPPORTED, f"pod {pod.id} has no address or no recorded host key")
    if trust.how == FIRST_SEEN and vouched:
        raise ActionRefused(RefusalCode.NOT_SUPPORTED, f"nobody vouches for the host key of pod {pod.id}: a person must allow this")
    p = config.process
    out = p.log.replace("{worker}", a.worker)
    ask = {"argv": list(a.argv), "match": p.match, "lock": p.lock, "boot_id": a.boot_id, "pod": pod.id, "out": out,
           "watch_s": WATCH_S}  # fmt: skip
    got = change(context, context.open_host(pod_node(config, pod, trust.key)), "pod_start_worker", ask, WATCH_S + 25)
    if context.log_in:
        context.log_in.changed(context)
    more = [f"pid {pid} was started by somebody else in the same moment: two workers run" for pid in got["others"]]
    said = f"worker {a.worker} started in pod {pod.id}: pid {got['pid']}; output in {out}"
    return ActionResult(said=(said, *more), facts={"pid": int(got["pid"])})
