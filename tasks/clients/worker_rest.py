"""The orchestrator's tables by the REST interface (PostgREST's shapes), for those who have only URL and service key."""

import json
from datetime import datetime
from typing import Any

import httpx

from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.worker_rows import TaskRow, WorkerRow
from tasks.clients.worker_rows import MOST, PAGE, all_pages, columns, task_of, whole, worker_of
from tasks.credentials import credential, where
from tasks.transport.base import TransportError
from tasks.transport.http import WHOLE, read_whole

LARGEST = 32 << 20  # bytes of an answer: 5,000 rows with their metadata stay far below


class RestDb:
    """`<url>/rest/v1/<table>` with the service key."""

    def __init__(self, config: DatabaseConfig, url: str, redactor: Redactor) -> None:
        key = credential(config.rest_key_env).strip()
        if not key:
            raise TransportError(UnknownReason.DENIED, f"{where(config.rest_key_env)} is empty")
        base = url.rstrip("/")
        self._base = base if base.endswith("/rest/v1") else f"{base}/rest/v1"
        self._config, self._redactor = config, redactor.knowing({config.rest_key_env: key})
        self._http = httpx.Client(timeout=config.timeout_s, headers={"apikey": key, "Authorization": f"Bearer {key}"})
        self.shown = f"REST on ${config.rest_url_env}"

    def workers(self) -> tuple[WorkerRow, ...]:
        """The newest 500 rows."""
        w = self._config.workers
        ask = {"select": ",".join(columns(self._config)), "order": f"{w.created}.desc", "limit": "500"}
        return tuple(worker_of(self._config, r) for r in self._ask("GET", w.table, ask)[0])

    def all_workers(self) -> tuple[WorkerRow, ...]:
        """Every row by pages, each after the last id of the one before, also where the server cuts pages; or none."""
        w = self._config.workers
        ask = {"select": ",".join(columns(self._config)), "order": f"{w.id}.asc", "limit": str(PAGE)}
        count = self._total(self._ask("GET", w.table, {"select": w.id, "limit": "1"}, {"Prefer": "count=exact"})[1])

        def page(after: str) -> list[dict[str, Any]]:
            return self._ask("GET", w.table, ask | ({w.id: f"gt.{after}"} if after else {}))[0]

        return all_pages(page, count, self._config, self.shown)

    def worker(self, id: str) -> WorkerRow | None:
        """The row of that id."""
        w = self._config.workers
        ask = {"select": ",".join(columns(self._config)), w.id: f"eq.{id}"}
        return next((worker_of(self._config, r) for r in self._ask("GET", w.table, ask)[0]), None)

    def tasks(self) -> tuple[TaskRow, ...]:
        """All tasks in progress. Raises TransportError when the answer holds fewer than there are."""
        t = self._config.tasks
        ask = {"select": f"{t.id},{t.status},{t.worker},{t.claimed}", t.status: f"eq.{t.in_progress}", "limit": str(MOST)}
        rows, headers = self._ask("GET", t.table, ask, {"Prefer": "count=exact"})
        whole(len(rows), self._total(headers), self.shown)
        return tuple(task_of(self._config, r) for r in rows)

    def queued(self) -> int:
        """How many tasks wait, from the answer's Content-Range."""
        t = self._config.tasks
        ask = {"select": t.id, t.status: f"eq.{t.queued}", "limit": "1"}
        return self._total(self._ask("GET", t.table, ask, {"Prefer": "count=exact"})[1])

    def _total(self, headers: Any) -> int:
        total = headers.get("content-range", "").rpartition("/")[2]
        if not total.isdecimal():
            raise TransportError(UnknownReason.UNPARSABLE, "no count in Content-Range", self.shown)
        return int(total)

    def mark(self, row: WorkerRow, status: str) -> int:
        """PATCH the row if it is as it was read."""
        w = self._config.workers
        beat = f"eq.{_iso(row.heartbeat)}" if row.heartbeat else "is.null"
        pod = f"{w.metadata}->>{w.pod_id}" if w.metadata else w.pod_id
        ask = {w.id: f"eq.{row.id}", w.status: f"eq.{row.status}", w.heartbeat: beat}
        ask |= {pod: f"eq.{row.pod_id}"} if row.pod_id else {"or": f"({pod}.is.null,{pod}.eq.)"}
        rows, _ = self._ask("PATCH", w.table, ask, {"Prefer": "return=representation"}, {w.status: status})
        return len(rows)

    def name_pod(self, row: WorkerRow, pod: str) -> int:
        """PATCH the row where it names no pod. Its metadata is replaced only while it is what was read right before."""
        w = self._config.workers
        mine = {w.id: f"eq.{row.id}", w.status: f"eq.{row.status}"}
        if not w.metadata:
            ask = mine | {"or": f"({w.pod_id}.is.null,{w.pod_id}.eq.)"}
            return len(self._ask("PATCH", w.table, ask, {"Prefer": "return=representation"}, {w.pod_id: pod})[0])
        found, _ = self._ask("GET", w.table, mine | {"select": w.metadata})
        if len(found) != 1 or not isinstance(old := found[0].get(w.metadata) or {}, dict) or old.get(w.pod_id):
            return 0
        same = {w.metadata: f"eq.{json.dumps(old)}" if found[0].get(w.metadata) is not None else "is.null"}
        rows, _ = self._ask("PATCH", w.table, mine | same, {"Prefer": "return=representation"}, {w.metadata: old | {w.pod_id: pod}})
        return len(rows)

    def _ask(
        self, method: str, table: str, ask: dict[str, str], headers: dict[str, str] | None = None, body: Any = None
    ) -> tuple[list[dict[str, Any]], Any]:
        schema, _, name = table.rpartition(".")
        more = {"Accept-Profile": schema, "Content-Profile": schema} if schema else {}
        url = f"{self._base}/{name}"
        try:
            with self._http.stream(method, url, params=ask, headers={**(headers or {}), **more}, json=body) as r:
                text = read_whole(r, LARGEST, WHOLE * self._config.timeout_s)
        except httpx.HTTPError as e:
            why = UnknownReason.TIMED_OUT if isinstance(e, httpx.ReadTimeout) else UnknownReason.UNREACHABLE
            raise TransportError(why, type(e).__name__, self.shown) from None
        except TransportError as e:
            raise TransportError(e.reason, e.detail, self.shown) from None
        if r.status_code in (401, 403):
            raise TransportError(UnknownReason.DENIED, f"HTTP {r.status_code}: {self._redactor.text(text[:200])}", self.shown)
        if not 200 <= r.status_code < 300:
            raise TransportError(UnknownReason.FAILED, f"HTTP {r.status_code}: {self._redactor.text(text[:200])}", self.shown)
        try:
            rows = json.loads(text) if text.strip() else []
        except (ValueError, RecursionError):
            raise TransportError(UnknownReason.UNPARSABLE, "the answer is no JSON", self.shown) from None
        if not isinstance(rows, list):
            raise TransportError(UnknownReason.UNPARSABLE, "the answer is no list of rows", self.shown)
        return rows, r.headers


def _iso(at: datetime) -> str:
    return at.isoformat()
