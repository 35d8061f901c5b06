"""Sets the status of one worker's row, only if the row still is as it was read."""

from datetime import datetime

from runbooks.core.args.workers import MarkWorkerRow
from runbooks.core.refusal import RefusalCode
from runbooks.parsers.runpod import Phase, Pod
from runbooks.parsers.worker_rows import WorkerRow
from tasks.arguments import takes
from tasks.clients.asked import orchestrator_of
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.clients.worker_db import open_db
from tasks.context import ActionRefused, ActionResult, Context
from tasks.transport.base import TransportError


@takes(MarkWorkerRow)
def mark_worker_row(a: MarkWorkerRow, context: Context) -> ActionResult:
    """Set one row's status, compared and changed in one statement. Refused when the row is not as it was read, and where
    it follows a pod that is gone, when the provider has that pod, or one of the worker's name, by now."""
    config = orchestrator_of(context)
    db = open_db(config.database, context.redactor)
    try:
        row = db.worker(a.worker)
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the row could not be read again: {e}") from None
    if row is None or row.pod_id != a.pod:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"row {a.worker} is gone or names another pod")
    judged = WorkerRow(
        id=a.worker, status=a.was, pod_id=a.pod,
        heartbeat=datetime.fromisoformat(a.heartbeat) if a.heartbeat else None,
    )  # fmt: skip
    if a.gone:
        _pod_is_gone(a, context)
    changed = db.mark(judged, a.to)
    if changed != 1:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"row {a.worker} is not as it was read (status, heartbeat or pod changed)")
    return ActionResult(said=(f"row {a.worker}: status {a.was} is now {a.to}",))


def _pod_is_gone(a: MarkWorkerRow, context: Context) -> None:
    """Refuses unless the provider has neither the row's pod nor another of the worker's name, and its list is not empty."""
    config = orchestrator_of(context).runpod
    try:
        client = RunPodClient(config, context.redactor)
        try:
            there = [p.id for p in _listed(client) if not p.terminated and p.phase is not Phase.TERMINATED and a.worker == p.name]
            there += [a.pod] if a.pod and _asked(client, a.pod) else []
        finally:
            client.close()
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"whether pod {a.pod} is gone could not be read again: {e}") from None
    if there:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the provider has pod {there[0]} of worker {a.worker}: the row is left as it is")


def _listed(client: RunPodClient) -> tuple[Pod, ...]:
    found = client.every_pod()
    if not found:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, "the provider's list of pods is empty now: an empty list proves nothing gone")
    return found


def _asked(client: RunPodClient, pod_id: str) -> bool:
    """Whether the pod is there by its id, and not ended."""
    try:
        pod = client.pod(pod_id)
    except NotFound:
        return False
    return not pod.terminated and pod.phase is not Phase.TERMINATED
