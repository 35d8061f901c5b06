"""Sets the status of one worker's row, only if the row still is as it was read."""

from datetime import datetime

from runbooks.core.args.workers import MarkWorkerRow
from runbooks.core.refusal import RefusalCode
from runbooks.parsers.worker_rows import WorkerRow
from tasks.arguments import takes
from tasks.clients.worker_db import open_db
from tasks.context import ActionRefused, ActionResult, Context
from tasks.spawning.act_pods import orchestrator_of
from tasks.transport.base import TransportError


@takes(MarkWorkerRow)
def mark_worker_row(a: MarkWorkerRow, context: Context) -> ActionResult:
    """Set one row's status, compared and changed in one statement. Refused when the row is not as it was read."""
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
    changed = db.mark(judged, a.to)
    if changed != 1:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"row {a.worker} is not as it was read (status, heartbeat or pod changed)")
    return ActionResult(said=(f"row {a.worker}: status {a.was} is now {a.to}",))
