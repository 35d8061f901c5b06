"""Gathers the four views of one worker (row, pod, network, inside) and the orchestrator's own side. Reads only."""

from typing import Any, TypeVar

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import NOT_RECORDED, Absent, Known, Reading, Unknown
from runbooks.parsers.runpod import Phase, Pod, Runtime
from runbooks.parsers.worker_rows import WorkerRow
from runbooks.spawning.all_workers import SHARED
from runbooks.spawning.diagnose import Limits, is_coming
from runbooks.spawning.evidence import Evidence, PodRead
from runbooks.spawning.inside import UP
from tasks.clients.asked import asked, names_of
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.clients.worker_db import WorkerDb, open_db
from tasks.context import Context
from tasks.diagnostic import ReaderPool
from tasks.spawning.pod_history import read_usual
from tasks.spawning.pod_inside import read_inside, read_ssh_stages
from tasks.spawning.railway import read_railway
from tasks.spawning.runpod_stock import read_stock
from tasks.spawning.worker_logs_s3 import read_stored_log
from tasks.transport.base import TransportError

T = TypeVar("T")
ALL = "workers"
OWN = ("row", "pod", "pod_log", "usual", "ssh", "inside", "stored_log")  # what belongs to one worker alone
NO_SECTION = "the fleet file has no `orchestrator` section"


def gather_stuck_spawning(context: Context) -> Evidence:
    """One worker, `worker/<id>`, or `workers`: all past their limit.

    Option `wait` (seconds, for one worker): as long as it is merely coming up, waits and looks again."""
    config = context.fleet.orchestrator
    if config is None:
        return Evidence(worker=context.target, taken_at=context.now(), row=Absent(proof=NO_SECTION))
    if context.target == ALL:
        return _all(context, config)
    evidence = _evidence(context, config)
    wait = min(float(context.options.pop("wait", 0) or 0), float(context.limits["wait_most_s"]))
    return _waited(context, config, evidence, wait) if wait else evidence


def _evidence(context: Context, config: Orchestrator) -> Evidence:
    """The four views and the orchestrator, at once."""
    worker, at = context.target.removeprefix("worker/"), context.now()
    with ReaderPool(max_workers=2) as pool:
        tables = pool.submit(_tables, context, config, worker)
        railway = pool.submit(read_railway, context, config, worker)
        rows = tables.result()
        platform = vars(railway.result())
    own = _own(context, config, worker, rows["row"])
    return Evidence(
        worker=worker, taken_at=at, pods=_pods(context, config), stock=_stock(context, config, [rows["row"]]),
        **(platform | rows | own),
    )  # fmt: skip


def _stock(context: Context, config: Orchestrator, rows: list[Any]) -> Any:
    """The provider's stock, where a worker that comes up has no pod."""
    podless = [r for r in rows if isinstance(r, Known) and not r.value.pod_id and r.value.status in UP]
    return read_stock(context, config) if podless else Absent(proof="no worker that comes up lacks a pod")


def _own(context: Context, config: Orchestrator, worker: str, row: Any) -> dict[str, Any]:
    """What belongs to one worker alone: its pod, network, inside and stored log."""
    provider = _provider(context, config, row.value.pod_id if isinstance(row, Known) else "")
    pod = provider["pod"].value[-1].pod if isinstance(provider["pod"], Known) else None
    live = pod if pod is not None and pod.phase is Phase.RUNNING else None
    said = provider["pod_log"]
    ssh = read_ssh_stages(context, config, live, said.value if isinstance(said, Known) else ())
    return {
        "row": row, **provider, "usual": _usual(context, pod), "ssh": ssh, "inside": read_inside(context, config, live, ssh, worker),
        "stored_log": read_stored_log(context, config.logs, worker),
        "can_start": bool(config.process.start), "start_argv": start_argv(config, worker), "names": names_of(config),
    }  # fmt: skip


def _usual(context: Context, pod: Pod | None) -> Any:
    """What is usual for its image, where its container is not there."""
    if pod is None or pod.runtime is not Runtime.NULL:
        return Absent(proof="the pod's container runs, or there is no pod")
    return read_usual(context, pod.image, pod.id)


def _all(context: Context, config: Orchestrator) -> Evidence:
    """Every worker past its limit in spawning, oldest first; what they share is read once."""
    at = context.now()
    rows = _tables(context, config, "")
    platform = vars(read_railway(context, config, ""))
    limit, most = float(context.limits["spawning_s"]), int(context.limits["workers_at_once"])
    stuck = [
        r for r in (rows["workers"].value if isinstance(rows["workers"], Known) else ())
        if r.status in UP and r.created and (at - r.created).total_seconds() > limit
    ]  # fmt: skip
    stuck.sort(key=lambda r: (r.created, r.id))

    def one(r: WorkerRow) -> Evidence:
        own = _own(context, config, r.id, Known(value=r, source=rows["workers"].source))
        once = Absent(proof="read once for all workers")
        return Evidence(worker=r.id, taken_at=context.now(), **own, **dict.fromkeys(SHARED, once))

    with ReaderPool(max_workers=8) as pool:
        each = tuple(pool.map(one, stuck[:most]))
    return Evidence(
        worker="", names=names_of(config), taken_at=at, each=each,
        not_looked_at=tuple(r.id for r in stuck[most:]), pods=_pods(context, config),
        stock=_stock(context, config, [x.row for x in each]),
        **(platform | rows | dict.fromkeys(OWN, Absent(proof="about all workers past their limit"))),
    )  # fmt: skip


def _waited(context: Context, config: Orchestrator, evidence: Evidence, wait: float) -> Evidence:
    """Looks again, whole, once the pod's own answer has changed; at the latest when the time is over."""
    limits, began = Limits.model_validate(context.limits), context.now()
    while is_coming(evidence, limits):
        left = wait - (context.now() - began).total_seconds()
        if left <= 0:
            break
        _until_changed(context, config, evidence, left)
        evidence = _evidence(context, config)
    return evidence.model_copy(update={"waited_s": round((context.now() - began).total_seconds(), 1)})


def _until_changed(context: Context, config: Orchestrator, evidence: Evidence, left: float) -> None:
    """Asks the provider alone, again and again, until the pod has another state than was seen."""
    row = evidence.row.value if isinstance(evidence.row, Known) else None
    step, until = float(context.limits["wait_step_s"]), context.now().timestamp() + left
    before = _shape(evidence.pod)
    while context.now().timestamp() < until:
        context.sleep(min(step, max(0.0, until - context.now().timestamp())))
        now = _provider(context, config, row.pod_id if row else "", log=False)["pod"]
        if _shape(now) != before:
            return


def _shape(pod: Any) -> object:
    read = pod.value[-1].pod if isinstance(pod, Known) else None
    return (read.phase, read.runtime, read.ip, read.ssh_port, read.gpus) if read else None


def start_argv(config: Orchestrator, worker: str) -> tuple[str, ...]:
    """The worker's start command with its id filled in."""
    return tuple(word.replace("{worker}", worker) for word in config.process.start)


def _tables(context: Context, config: Orchestrator, worker: str) -> dict[str, Any]:
    try:
        db: WorkerDb = open_db(config.database, context.redactor)
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail)
        return dict.fromkeys(("row", "workers", "tasks", "queued"), no)
    w, t = config.database.workers, config.database.tasks
    workers = asked(context, "database", f"{db.shown}: SELECT … FROM {w.table}", db.workers)  # noqa: S608
    one = f"{db.shown}: SELECT … FROM {w.table} WHERE {w.id} = '{worker}'"  # noqa: S608
    return {
        "row": _row(context, db, one, workers, worker) if worker else Absent(proof="no worker is named"),
        "workers": workers,
        "tasks": asked(context, "database", f"{db.shown}: SELECT … FROM {t.table} WHERE {t.status} = '{t.in_progress}'", db.tasks),  # noqa: S608
        "queued": asked(context, "database", f"{db.shown}: SELECT count(*) FROM {t.table}", db.queued),  # noqa: S608
    }  # fmt: skip


def _row(context: Context, db: WorkerDb, sql: str, workers: Known[tuple[WorkerRow, ...]] | Unknown, worker: str) -> Reading[WorkerRow]:
    """The worker's own row: among the newest, or else asked for by its id, because a worker may be older than they are."""
    if isinstance(workers, Unknown):
        return workers
    if row := next((r for r in workers.value if r.id == worker), None):
        return Known(value=row, source=workers.source)
    found = asked(context, "database", sql, lambda: db.worker(worker))
    if isinstance(found, Unknown):
        return found
    return Known(value=found.value, source=found.source) if found.value else Absent(proof="no row of that id", source=found.source)


def _pods(context: Context, config: Orchestrator) -> Known[tuple[Pod, ...]] | Unknown:
    """The listing of this orchestrator's pods."""
    try:
        client = RunPodClient(config.runpod, context.redactor)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail)
    try:
        return asked(context, "runpod", "GET /v1/pods", client.pods)
    finally:
        client.close()


def _provider(context: Context, config: Orchestrator, pod_id: str, log: bool = True) -> dict[str, Any]:
    """The pod twice, and its log."""
    if not pod_id:
        return dict.fromkeys(("pod", "pod_log"), Absent(proof="the row has no pod id"))
    try:
        client = RunPodClient(config.runpod, context.redactor)
    except TransportError as e:
        return dict.fromkeys(("pod", "pod_log"), Unknown(reason=e.reason, detail=e.detail))
    try:
        pod = asked(context, "runpod", f"GET /v1/pods/{pod_id}, twice", lambda: _twice(context, client, pod_id))
        return {"pod": pod, "pod_log": _log(context, client, pod_id) if log else NOT_RECORDED}
    finally:
        client.close()


def _twice(context: Context, client: RunPodClient, pod_id: str) -> tuple[PodRead, ...]:
    """Two reads apart, unless the first shows a pod that is well."""
    first = PodRead(at=context.now(), pod=_pod(client, pod_id))
    if first.pod is not None and first.pod.ip and first.pod.ssh_port and first.pod.gpus != 0:
        return (first,)
    context.sleep(context.limit("gap_s", "stuck-spawning"))
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
