"""The REST way to the tables: our requests held to those of the official `postgrest` client, answers in its shapes."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from postgrest import CountMethod, SyncPostgrestClient

from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.reading import UnknownReason
from runbooks.parsers.worker_rows import WorkerRow
from tasks.clients.worker_db import open_db
from tasks.clients.worker_rest import RestDb
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError

ROW = {"id": "w1", "status": "spawning", "created_at": "2026-01-01T00:00:00+00:00", "last_heartbeat": None,
       "updated_at": "2026-01-01T00:00:00.5+00:00", "runpod_id": "p1"}  # fmt: skip


class Recorder:
    """Keeps what it was asked and answers with one body."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any, str]] = []
        self.status, self.body, self.range = 200, [ROW], "0-0/7"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

            def do_GET(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urlsplit(self.path)
                body = json.loads(raw) if raw and raw != b"{}" else None
                query = {k: v.replace('"', "") for k, v in parse_qsl(url.query)}
                prefer = self.headers.get("Prefer") or ""
                outer.asked.append((self.command, url.path.removeprefix("/rest/v1"), query, body, prefer))
                data = json.dumps(outer.body).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Range", outer.range)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_PATCH = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.close()


@pytest.fixture
def db(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> RestDb:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("SUPABASE_URL", recorder.url)
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "service-key-for-tests")
    made = open_db(DatabaseConfig(), installation_redactor())
    assert isinstance(made, RestDb)
    return made


def test_our_requests_are_those_of_the_official_client(recorder: Recorder, db: RestDb) -> None:
    official = SyncPostgrestClient(f"{recorder.url}/rest/v1")
    wanted = "id,status,created_at,last_heartbeat,updated_at,runpod_id"
    official.from_("workers").select(wanted).order("created_at", desc=True).limit(500).execute()
    (row,) = db.workers()
    assert (row.id, row.pod_id, row.heartbeat) == ("w1", "p1", None)
    task = {"id": "t", "status": "In Progress", "worker_id": "w1", "generation_started_at": None}
    recorder.body = [task]
    wanted = "id,status,worker_id,generation_started_at"
    official.from_("tasks").select(wanted, count=CountMethod.exact).eq("status", "In Progress").limit(5000).execute()
    recorder.range = "0-0/1"
    assert db.tasks()[0].worker == "w1"
    recorder.range = "0-0/7"
    official.from_("tasks").select("id", count=CountMethod.exact).eq("status", "Queued").limit(1).execute()
    assert db.queued() == 7
    beat = datetime(2026, 1, 1, tzinfo=UTC)
    change = official.from_("workers").update({"status": "terminated"})
    change.eq("id", "w1").eq("status", "spawning").eq("last_heartbeat", beat.isoformat()).eq(
        "runpod_id", "p1"
    ).execute()
    assert db.mark(WorkerRow(id="w1", status="spawning", heartbeat=beat, pod_id="p1"), "terminated") == 1
    change = official.from_("workers").update({"status": "terminated"})
    change.eq("id", "w1").eq("status", "spawning").is_("last_heartbeat", "null").or_(
        "runpod_id.is.null,runpod_id.eq."
    ).execute()
    assert db.mark(WorkerRow(id="w1", status="spawning"), "terminated") == 1
    theirs, ours = recorder.asked[0::2], recorder.asked[1::2]
    assert [a[:4] for a in ours] == [a[:4] for a in theirs]
    assert "count=exact" in ours[1][4]
    assert "count=exact" in ours[2][4]
    assert "return=representation" in ours[3][4]


def test_tasks_that_the_server_cut_off_are_not_read_as_none(recorder: Recorder, db: RestDb) -> None:
    """PostgREST's max-rows shortens an answer without a word; a task that is not seen must not count as not there."""
    recorder.body = [{"id": "t", "status": "In Progress", "worker_id": "w1", "generation_started_at": None}]
    recorder.range = "0-0/1700"
    with pytest.raises(TransportError, match="only 1 of 1700"):
        db.tasks()


def test_a_row_that_changed_is_not_marked_and_a_refusal_is_told(recorder: Recorder, db: RestDb) -> None:
    recorder.body = []
    assert db.mark(WorkerRow(id="w1", status="spawning"), "terminated") == 0
    recorder.status, recorder.body = 401, [{"message": "JWT expired"}]
    with pytest.raises(TransportError) as e:
        db.workers()
    assert e.value.reason is UnknownReason.DENIED
    assert "service-key-for-tests" not in str(e.value)
