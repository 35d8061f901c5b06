"""Writes the id of a pod into the row of its worker, only if the row names none and the pod alone has the worker's name."""

from runbooks.core.args.workers import RecoverPodId
from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.refusal import RefusalCode
from runbooks.orchestrator.sides import is_gone
from runbooks.parsers.worker_rows import WorkerRow
from tasks.arguments import takes
from tasks.clients.asked import orchestrator_of
from tasks.clients.runpod import RunPodClient
from tasks.clients.worker_db import WorkerDb, open_db
from tasks.context import ActionRefused, ActionResult, Context
from tasks.transport.base import TransportError


@takes(RecoverPodId)
def recover_pod_id(a: RecoverPodId, context: Context) -> ActionResult:
    """Name the pod in the row, compared and changed in one statement.

    Refused when another pod has the worker's name, another row names the pod, or the row is not as it was read. A heartbeat does
    not refuse it: the worker lives."""
    config = orchestrator_of(context)
    _alone(a, config, context)
    try:
        db = open_db(config.database, context.redactor)
        row = _row(a, db)
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the workers' rows could not be read again: {e}") from None
    if db.name_pod(row, a.pod) != 1:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"row {a.worker} is not as it was read (status or pod changed)")
    return ActionResult(said=(f"row {a.worker} names pod {a.pod} again",))


def _alone(a: RecoverPodId, config: Orchestrator, context: Context) -> None:
    """Refuses unless that pod, and no other, has the worker's name, which begins as the names of this orchestrator do."""
    try:
        client = RunPodClient(config.runpod, context.redactor)
        try:
            mine = sorted(p.id for p in client.every_pod() if p.name == a.worker and not is_gone(p))
        finally:
            client.close()
    except TransportError as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the pods could not be listed again: {e}") from None
    if not a.worker.startswith(config.runpod.name_prefix):
        raise ActionRefused(RefusalCode.NOT_OURS, f"worker {a.worker} is not this orchestrator's: its id does not start with its prefix")
    if mine != [a.pod]:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"pods with the name {a.worker} are now: {', '.join(mine[:5]) or 'none'}")


def _row(a: RecoverPodId, db: WorkerDb) -> WorkerRow:
    """The row as it is now. Refuses where it names a pod, or another row names this one."""
    rows = db.all_workers()
    if other := next((r.id for r in rows if r.pod_id == a.pod), ""):
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"row {other} names pod {a.pod} by now")
    row = next((r for r in rows if r.id == a.worker), None)
    if row is None or row.pod_id or row.status != a.was:
        now = f"says {row.status} with pod {row.pod_id or 'none'}" if row else "is gone"
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"row {a.worker} {now}")
    return row
