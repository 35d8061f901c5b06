"""Gathers the four views of one worker (row, pod, network, inside) and the orchestrator's own side. Reads only."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import Absent, Known, Source, Unknown, Why
from runbooks.parsers.runpod import Phase, Pod
from runbooks.stuck_spawning.evidence import Evidence, PodRead, WorkerRow
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.clients.worker_db import WorkerDb, open_db
from tasks.context import Context
from tasks.diagnostics.pod_inside import look_at_ssh, read_inside
from tasks.diagnostics.railway import read_railway
from tasks.diagnostics.worker_logs_s3 import read_stored_log
from tasks.transport.base import TransportError

T = TypeVar("T")
GAP_S = 5.0  # used only where the runbook's limits don't say


def gather_stuck_spawning(context: Context) -> Evidence:
    """One worker; the target is `worker/<id>`. Raises TransportError when the fleet file has no orchestrator."""
    config = context.fleet.orchestrator
    if config is None:
        raise TransportError(Why.NOT_ASKED, "the fleet file has no `orchestrator` section")
    worker, at = context.target.removeprefix("worker/"), context.now()
    with ThreadPoolExecutor(max_workers=3) as pool:
        tables = pool.submit(_tables, context, config, worker)
        railway = pool.submit(read_railway, context, config, worker)
        stored = pool.submit(read_stored_log, context, config.logs, worker)
        rows = tables.result()
        row = rows["row"]
        provider = _provider(context, config, row.value.pod_id if isinstance(row, Known) else "")
        log, deployment, variables = railway.result()
    pod = provider["pod"].value[-1].pod if isinstance(provider["pod"], Known) else None
    live = pod if pod is not None and pod.phase is Phase.RUNNING else None
    ssh = look_at_ssh(context, config, live)
    return Evidence(
        worker=worker, taken_at=at, ssh=ssh, inside=read_inside(context, config, live, ssh, worker),
        stored_log=stored.result(), orchestrator=log, deployment=deployment, variables=variables,
        can_start=bool(config.process.start), start_argv=start_argv(config, worker), **rows, **provider,
    )  # fmt: skip


def start_argv(config: Orchestrator, worker: str) -> tuple[str, ...]:
    """The worker's start command with its id filled in."""
    return tuple(word.replace("{worker}", worker) for word in config.process.start)


def asked(context: Context, host: str, command: str, ask: Callable[[], T]) -> Known[T] | Unknown:
    """The answer of a client as a reading."""
    source = Source(command=command, host=host, taken_at=context.now())
    try:
        return Known(value=ask(), source=source)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    except (KeyError, ValueError, TypeError) as e:
        return Unknown(reason=Why.UNPARSABLE, detail=f"{type(e).__name__}: {e}"[:300], source=source)


def _tables(context: Context, config: Orchestrator, worker: str) -> dict[str, Any]:
    try:
        db: WorkerDb = open_db(config.database, context.redactor)
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail)
        return dict.fromkeys(("row", "workers", "tasks", "queued"), no)
    w, t = config.database.workers, config.database.tasks
    workers = asked(context, "database", f"{db.shown}: SELECT … FROM {w.table}", db.workers)  # noqa: S608
    return {
        "row": find_row(workers, worker),
        "workers": workers,
        "tasks": asked(context, "database", f"{db.shown}: SELECT … FROM {t.table} WHERE {t.status} = '{t.in_progress}'", db.tasks),  # noqa: S608
        "queued": asked(context, "database", f"{db.shown}: SELECT count(*) FROM {t.table}", db.queued),  # noqa: S608
    }  # fmt: skip


def find_row(workers: Known[tuple[WorkerRow, ...]] | Unknown, worker: str) -> Known[WorkerRow] | Absent | Unknown:
    """The worker's own row among those that were read."""
    if isinstance(workers, Unknown):
        return workers
    row = next((r for r in workers.value if r.id == worker), None)
    if row is None:
        return Absent(proof=f"no row of that id among the newest {len(workers.value)}", source=workers.source)
    return Known(value=row, source=workers.source)


def _provider(context: Context, config: Orchestrator, pod_id: str) -> dict[str, Any]:
    """The pod twice, its log, and the listing."""
    try:
        client = RunPodClient(config.runpod, context.redactor)
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail)
        return {"pod": no, "pod_log": no, "pods": no}
    try:
        pods = asked(context, "runpod", "GET /v1/pods", client.pods)
        if not pod_id:
            none = Absent(proof="the row has no pod id")
            return {"pod": none, "pod_log": none, "pods": pods}
        pod = asked(context, "runpod", f"GET /v1/pods/{pod_id}, twice", lambda: _twice(context, client, pod_id))
        return {"pod": pod, "pod_log": _log(context, client, pod_id), "pods": pods}
    finally:
        client.close()


def _twice(context: Context, client: RunPodClient, pod_id: str) -> tuple[PodRead, ...]:
    """Two reads apart, unless the first shows a pod that is well."""
    first = PodRead(at=context.now(), pod=_pod(client, pod_id))
    if first.pod is not None and first.pod.ip and first.pod.ssh_port and first.pod.gpus != 0:
        return (first,)
    context.sleep(float(context.limits.get("gap_s", GAP_S)))
    return first, PodRead(at=context.now(), pod=_pod(client, pod_id))


def _pod(client: RunPodClient, pod_id: str) -> Pod | None:
    try:
        return client.pod(pod_id)
    except NotFound:
        return None


def _log(context: Context, client: RunPodClient, pod_id: str) -> Known[tuple[str, ...]] | Absent | Unknown:
    try:
        return asked(context, "runpod", f"GET /v2/pods/{pod_id}/logs", lambda: client.log(pod_id, seconds=2.0))
    except NotFound:
        return Absent(proof="the provider has no log of that pod")
