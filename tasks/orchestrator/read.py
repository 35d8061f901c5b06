"""Lists the provider's pods and the database's workers, each whole and twice, and asks by id for what a list lacks. Reads only."""

from collections.abc import Callable, Iterable
from typing import Any

from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.orchestrator.evidence import Evidence
from runbooks.orchestrator.sides import Limits, Sides, blind, is_gone
from tasks.clients.asked import asked, names_of
from tasks.clients.runpod import NotFound, RunPodClient, is_pod_id
from tasks.clients.worker_db import WorkerDb, open_db
from tasks.context import Context
from tasks.transport.base import TransportError

SIDES = ("pods", "rows", "pods_again", "rows_again")
BY_ID = ("pods_by_id", "rows_by_id")
NOT_ASKED = Unknown(reason=UnknownReason.NOT_ASKED, detail="the provider could not be asked")


def gather_fleet_sync(context: Context) -> Evidence:
    """Both lists twice; where the two looks differ, again, at most `looks_most` times. Then what a list lacks, one by one, by its id."""
    config = context.fleet.orchestrator
    if config is None:
        no = Absent(proof="the fleet file has no `orchestrator` section")
        return Evidence(taken_at=context.now(), **dict.fromkeys((*SIDES, *BY_ID, "tasks"), no))
    limits = Limits.model_validate(context.limits)
    try:
        client = RunPodClient(config.runpod, context.redactor)
    except TransportError as e:
        return _without_provider(context, config, e)
    try:
        db = _database(context, config)
        evidence = _look(context, config, client, db, limits)
        for _ in range(limits.looks_most - 1):
            if not _differ(evidence):
                break
            evidence = _look(context, config, client, db, limits)
        return _by_id(context, config, client, db, evidence, limits)
    finally:
        client.close()


def _without_provider(context: Context, config: Orchestrator, e: TransportError) -> Evidence:
    """The rows alone, where the provider cannot be asked: shown, and nothing follows from them."""
    no, db = Unknown(reason=e.reason, detail=e.detail), _database(context, config)
    return Evidence(
        taken_at=context.now(), **_told(config), pods=no, pods_again=no,
        rows=_rows(context, config, db), rows_again=NOT_ASKED, pods_by_id=no, rows_by_id=NOT_ASKED, tasks=NOT_ASKED,
    )  # fmt: skip


def _told(config: Orchestrator) -> dict[str, Any]:
    """What the fleet file says of both sides."""
    w = config.database.workers
    return {"prefix": config.runpod.name_prefix, "names": names_of(config), "live": w.live, "ended": w.ended, "marked": w.marked}


def _database(context: Context, config: Orchestrator) -> WorkerDb | Unknown:
    try:
        return open_db(config.database, context.redactor)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail)


def _look(context: Context, config: Orchestrator, client: RunPodClient, db: WorkerDb | Unknown, limits: Limits) -> Evidence:
    """Pods, rows, a pause, pods, rows: a row is read after its pod, and a pod after its row."""
    pods, rows = _pods(context, client), _rows(context, config, db)
    context.sleep(limits.gap_s)
    again, later = _pods(context, client), _rows(context, config, db)
    return Evidence(taken_at=context.now(), **_told(config), pods=pods, rows=rows,
                    pods_again=again, rows_again=later, tasks=_tasks(context, config, db))  # fmt: skip


def _pods(context: Context, client: RunPodClient) -> Known[Any] | Unknown:
    return asked(context, "runpod", "GET /v1/pods", client.every_pod)


def _rows(context: Context, config: Orchestrator, db: WorkerDb | Unknown) -> Known[Any] | Unknown:
    if isinstance(db, Unknown):
        return db
    return asked(context, "database", f"{db.shown}: SELECT … FROM {config.database.workers.table}, all pages", db.all_workers)  # noqa: S608


def _tasks(context: Context, config: Orchestrator, db: WorkerDb | Unknown) -> Known[Any] | Unknown:
    if isinstance(db, Unknown):
        return db
    t = config.database.tasks
    return asked(context, "database", f"{db.shown}: SELECT … FROM {t.table} WHERE {t.status} = '{t.in_progress}'", db.tasks)  # noqa: S608


def _differ(e: Evidence) -> bool:
    """Both lists were read twice and are there, and the two looks are not alike."""
    read = (e.pods, e.pods_again, e.rows, e.rows_again)
    return all(isinstance(x, Known) and x.value for x in read) and bool(blind(e))


def _by_id(
    context: Context, config: Orchestrator, client: RunPodClient, db: WorkerDb | Unknown, e: Evidence, limits: Limits
) -> Evidence:
    """What one list names and the other lacks, asked for by itself. Nothing is asked where the lists decide nothing."""
    why = blind(e)
    if why or isinstance(db, Unknown):
        no = Unknown(reason=UnknownReason.NOT_ASKED, detail=why[0] if why else "the database cannot be asked")
        return _with(e, dict.fromkeys(BY_ID, no))
    sides = Sides(e, limits)
    ids = sorted({r.pod_id for r in sides.podless() if is_pod_id(r.pod_id)})
    names = sorted({p.name for p in sides.there if not sides.owners(p)})
    table = config.database.workers

    def status(name: str) -> str:
        row = db.worker(name)
        return row.status if row else ""

    one = f"{db.shown}: SELECT … FROM {table.table} WHERE {table.id} = …"  # noqa: S608
    return _with(e, {
        "pods_by_id": _each(context, "runpod", "GET /v1/pods/ID", ids, limits, lambda id: _state(client, id)),
        "rows_by_id": _each(context, "database", one, names, limits, status),
    })  # fmt: skip


def _with(e: Evidence, more: dict[str, Any]) -> Evidence:
    return Evidence(**({name: getattr(e, name) for name in Evidence.model_fields} | more))


def _each(
    context: Context, host: str, command: str, ids: Iterable[str], limits: Limits, ask: Callable[[str], str]
) -> Known[dict[str, str]] | Unknown:
    """What each is, for the first `asked_most`; the others stay unknown, so nothing about them is sure."""
    return asked(context, host, command, lambda: {id: ask(id) for id in list(ids)[: limits.asked_most]})


def _state(client: RunPodClient, pod_id: str) -> str:
    """The provider's word for its state; "" where it is gone, or the provider says that it was ended."""
    try:
        pod = client.pod(pod_id)
    except NotFound:
        return ""
    return "" if is_gone(pod) else pod.status or str(pod.phase)
