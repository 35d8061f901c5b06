"""Rows of the orchestrator's tables, whichever interface gave them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.reading import UnknownReason
from runbooks.parsers.worker_rows import TaskRow, WorkerRow
from tasks.transport.base import TransportError

MOST = 5000  # tasks in progress that are read
MOST_WORKERS = 50_000  # rows of workers that are read
PAGE = 1000  # of them at once
END_MARKS = ("terminated_at", "error_time")  # keys of the metadata that whoever ends a worker writes


def worker_of(config: DatabaseConfig, row: dict[str, Any]) -> WorkerRow:
    """A row of either interface."""
    w = config.workers
    more = row.get(w.metadata) if w.metadata else None
    pod = more.get(w.pod_id) if isinstance(more, dict) else row.get(w.pod_id)
    return WorkerRow(
        id=_column(row, w.id), status=_column(row, w.status), created=_time(row.get(w.created)),
        heartbeat=_time(row.get(w.heartbeat)), changed=_time(row.get(w.changed)), pod_id=str(pod or ""),
        ended=next((f"{key} {more[key]}"[:100] for key in END_MARKS if more.get(key)), "") if isinstance(more, dict) else "",
    )  # fmt: skip


def task_of(config: DatabaseConfig, row: dict[str, Any]) -> TaskRow:
    """A row of either interface."""
    t = config.tasks
    return TaskRow(
        id=_column(row, t.id),
        status=_column(row, t.status),
        worker=str(row.get(t.worker) or ""),
        claimed=_time(row.get(t.claimed)),
    )


def _column(row: dict[str, Any], name: str) -> str:
    """A column that every row fills. Raises ValueError where this one does not."""
    if isinstance(value := row.get(name), str | int | UUID) and str(value):
        return str(value)
    raise ValueError(f"{name} of a row is {value!r:.80}")


def _time(x: Any) -> datetime | None:
    if isinstance(x, str):
        try:
            x = datetime.fromisoformat(x.replace("Z", "+00:00"))
        except ValueError:
            return None
    if not isinstance(x, datetime):
        return None
    return x if x.tzinfo else x.replace(tzinfo=UTC)


def all_pages(page: Callable[[str], list[dict[str, Any]]], count: int, config: DatabaseConfig, shown: str) -> tuple[WorkerRow, ...]:
    """Every row, by pages that begin after an id. Raises TransportError where a page does not advance, or fewer come than are counted."""
    found: dict[str, WorkerRow] = {}
    after = ""
    while rows := [worker_of(config, r) for r in page(after)]:
        if any(r.id in found for r in rows) or len({r.id for r in rows}) < len(rows):
            raise TransportError(UnknownReason.FAILED, f"a page of workers repeats rows after {len(found)} of {count}", shown)
        found |= {r.id: r for r in rows}
        after = rows[-1].id
        if len(found) > MOST_WORKERS:
            raise TransportError(UnknownReason.FAILED, f"more than {MOST_WORKERS} of {count} workers: only a part would be read", shown)
    if len(found) < count:
        raise TransportError(UnknownReason.FAILED, f"only {len(found)} of {count} workers could be read", shown)
    return tuple(found.values())


def whole(read: int, there: int, shown: str) -> None:
    """Raises TransportError when only a part was read: a task that is not seen must never count as not there."""
    if read < there:
        raise TransportError(UnknownReason.FAILED, f"only {read} of {there} or more tasks in progress could be read", shown)


def columns(config: DatabaseConfig) -> tuple[str, ...]:
    """Columns of the workers' table that are read."""
    w = config.workers
    return tuple(dict.fromkeys((w.id, w.status, w.created, w.heartbeat, w.changed, w.metadata or w.pod_id)))
