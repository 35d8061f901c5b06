"""The orchestrator's tables: by SQL where there is a connection string, by the REST interface where there is only a key."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.worker_rows import TaskRow, WorkerRow
from tasks.clients.worker_rows import MOST, PAGE, all_pages, columns, task_of, whole, worker_of
from tasks.credentials import credential
from tasks.transport.base import TransportError

T = TypeVar("T")


class WorkerDb(Protocol):
    """What is asked of the tables."""

    @property
    def shown(self) -> str:
        """How it is asked, for the source."""

    def workers(self) -> tuple[WorkerRow, ...]:
        """The newest rows. Raises TransportError."""

    def all_workers(self) -> tuple[WorkerRow, ...]:
        """Every row, however old, by pages. Raises TransportError where they are not all of them."""

    def worker(self, id: str) -> WorkerRow | None:
        """One row, however old; None where there is none of that id. Raises TransportError."""

    def tasks(self) -> tuple[TaskRow, ...]:
        """Tasks in progress. Raises TransportError."""

    def queued(self) -> int:
        """How many tasks wait. Raises TransportError."""

    def mark(self, row: WorkerRow, status: str) -> int:
        """Set the status if the row is as it was read; how many rows changed. Raises TransportError."""

    def name_pod(self, row: WorkerRow, pod: str) -> int:
        """Write the pod's id where the row names none and is as it was read; how many rows changed. Raises TransportError."""


def open_db(config: DatabaseConfig, redactor: Redactor) -> WorkerDb:
    """SQL first. Raises TransportError when neither way is configured."""
    url = credential(config.url_env).strip()
    if url:
        return SqlDb(config, url, redactor)
    rest = credential(config.rest_url_env).strip()
    if rest:
        from tasks.clients.worker_rest import RestDb

        return RestDb(config, rest, redactor)
    names = f"{config.url_env} nor {config.rest_url_env}"
    raise TransportError(UnknownReason.DENIED, f"neither {names} is set: the database cannot be asked")


class SqlDb:
    """PostgreSQL by its connection string. Every value is a bound parameter; names come from the checked fleet file."""

    def __init__(self, config: DatabaseConfig, url: str, redactor: Redactor) -> None:
        self._config, self._url = config, _driver(url)
        self._redactor = redactor.knowing({config.url_env: url})
        self.shown = f"SQL on ${config.url_env}"

    def workers(self) -> tuple[WorkerRow, ...]:
        """The newest 500 rows."""
        w = self._config.workers
        sql = f"SELECT {_list(columns(self._config))} FROM {_name(w.table)} ORDER BY {_name(w.created)} DESC LIMIT 500"  # noqa: S608
        return tuple(worker_of(self._config, r) for r in self._rows(sql, {}))

    def all_workers(self) -> tuple[WorkerRow, ...]:
        """Every row by pages, each after the last id of the one before; as many as the table counts, or none."""
        w = self._config.workers
        id = f"CAST({_name(w.id)} AS text)"
        page = f"SELECT {_list(columns(self._config))} FROM {_name(w.table)} WHERE {id} > :after ORDER BY {id} LIMIT {PAGE}"  # noqa: S608
        count = f"SELECT count(*) AS n FROM {_name(w.table)}"  # noqa: S608
        return all_pages(lambda after: self._rows(page, {"after": after}), int(self._rows(count, {})[0]["n"]), self._config, self.shown)

    def worker(self, id: str) -> WorkerRow | None:
        """The row of that id."""
        w = self._config.workers
        sql = f"SELECT {_list(columns(self._config))} FROM {_name(w.table)} WHERE CAST({_name(w.id)} AS text) = :id"  # noqa: S608
        return next((worker_of(self._config, r) for r in self._rows(sql, {"id": id})), None)

    def tasks(self) -> tuple[TaskRow, ...]:
        """All tasks in progress. Raises TransportError when there are more than are read."""
        t = self._config.tasks
        wanted = _list((t.id, t.status, t.worker, t.claimed))
        sql = f"SELECT {wanted} FROM {_name(t.table)} WHERE {_name(t.status)} = :status LIMIT {MOST + 1}"  # noqa: S608
        rows = self._rows(sql, {"status": t.in_progress})
        whole(min(len(rows), MOST), len(rows), self.shown)
        return tuple(task_of(self._config, r) for r in rows)

    def queued(self) -> int:
        """How many tasks wait."""
        t = self._config.tasks
        sql = f"SELECT count(*) AS n FROM {_name(t.table)} WHERE {_name(t.status)} = :status"  # noqa: S608
        return int(self._rows(sql, {"status": t.queued})[0]["n"])

    def mark(self, row: WorkerRow, status: str) -> int:
        """UPDATE … WHERE the row is as it was read."""
        w = self._config.workers
        pod = f"{_name(w.metadata)} ->> '{w.pod_id}'" if w.metadata else f"CAST({_name(w.pod_id)} AS text)"
        sql = (
            f"UPDATE {_name(w.table)} SET {_name(w.status)} = :new WHERE CAST({_name(w.id)} AS text) = :id "  # noqa: S608
            f"AND {_name(w.status)} = :old AND {_name(w.heartbeat)} IS NOT DISTINCT FROM :beat AND COALESCE({pod}, '') = :pod"
        )
        values = {"new": status, "id": row.id, "old": row.status, "beat": row.heartbeat, "pod": row.pod_id}
        return _run(self._execute(sql, values), self._explain)

    def name_pod(self, row: WorkerRow, pod: str) -> int:
        """UPDATE … WHERE the row has the status that was read, and no pod. The other keys of its metadata stay."""
        w = self._config.workers
        if w.metadata:
            old, key = f"{_name(w.metadata)} ->> '{w.pod_id}'", f"jsonb_build_object('{w.pod_id}', CAST(:pod AS text))"
            change = f"{_name(w.metadata)} = COALESCE(CAST({_name(w.metadata)} AS jsonb), '{{}}') || {key}"
        else:
            old, change = f"CAST({_name(w.pod_id)} AS text)", f"{_name(w.pod_id)} = :pod"
        sql = (
            f"UPDATE {_name(w.table)} SET {change} WHERE CAST({_name(w.id)} AS text) = :id "  # noqa: S608
            f"AND {_name(w.status)} = :old AND COALESCE({old}, '') = ''"
        )
        return _run(self._execute(sql, {"pod": pod, "id": row.id, "old": row.status}), self._explain)

    def _rows(self, sql: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        return _run(self._select(sql, values), self._explain)

    async def _select(self, sql: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        from sqlalchemy import text

        engine = self._engine()
        try:
            async with asyncio.timeout(self._config.timeout_s), engine.connect() as c:
                return [dict(r._mapping) for r in (await c.execute(text(sql), values)).fetchall()]
        finally:
            await engine.dispose()

    async def _execute(self, sql: str, values: dict[str, Any]) -> int:
        from sqlalchemy import text

        engine = self._engine()
        try:
            async with asyncio.timeout(self._config.timeout_s), engine.begin() as c:
                return int((await c.execute(text(sql), values)).rowcount)
        finally:
            await engine.dispose()

    def _engine(self) -> Any:
        from sqlalchemy.ext.asyncio import create_async_engine
        from sqlalchemy.pool import NullPool

        return create_async_engine(self._url, poolclass=NullPool, connect_args={"timeout": self._config.timeout_s})

    def _explain(self, error: Exception) -> TransportError:
        text = self._redactor.text(" ".join(str(error).split())[:300]) or type(error).__name__
        low = f"{text} {type(error.__cause__).__name__}".lower()
        if isinstance(error, TimeoutError):
            return TransportError(UnknownReason.TIMED_OUT, f"no answer within {self._config.timeout_s:g} s", self.shown)
        if "permission denied" in low or "password authentication" in low or "insufficientprivilege" in low:
            return TransportError(UnknownReason.DENIED, text, self.shown)
        if isinstance(error, OSError) or "connection" in low:
            return TransportError(UnknownReason.UNREACHABLE, text, self.shown)
        return TransportError(UnknownReason.FAILED, text, self.shown)


def _driver(url: str) -> str:
    """The connection string for the driver that comes with the engine."""
    scheme, _, rest = url.partition("://")
    return f"postgresql+asyncpg://{rest}" if scheme in ("postgres", "postgresql") else url


def _name(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(_name(n) for n in names)


def _run(work: Coroutine[Any, Any, T], explain: Any) -> T:
    """Runs it on a thread of its own: the caller may stand inside another event loop."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            return pool.submit(asyncio.run, work).result()
        except TransportError:
            raise
        except Exception as e:
            raise explain(e) from None
