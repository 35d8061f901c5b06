"""The REST way to the tables: our requests held to those of the official `postgrest` client, answered by a real PostgreSQL."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from postgrest import CountMethod, SyncPostgrestClient

from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.reading import UnknownReason
from runbooks.parsers.worker_rows import WorkerRow
from tasks.clients.worker_db import open_db
from tasks.clients.worker_rest import RestDb
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError
from tests.support.orchestrator_tables import grant_all, make_roles
from tests.support.postgres import Postgres
from tests.support.postgrest import Call, PostgRest

BEAT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def there(postgres: Postgres) -> Iterator[PostgRest]:
    """Plain tables: a worker with a pod and a heartbeat, one without; one task in progress, two in the queue."""
    make_roles(postgres.url)
    grant_all(postgres.url)
    postgres.do("TRUNCATE workers, tasks")
    postgres.do("INSERT INTO workers VALUES ('w1', 'spawning', $1, $1, $1, 'p1'), ('w2', 'spawning', $1, NULL, $1, NULL)", BEAT)
    postgres.do("INSERT INTO tasks VALUES ('t', 'In Progress', 'w1'), ('q', 'Queued', ''), ('r', 'Queued', '')")
    with PostgRest(postgres.url) as made:
        yield made


@pytest.fixture
def db(there: PostgRest, monkeypatch: pytest.MonkeyPatch) -> RestDb:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("SUPABASE_URL", there.url)
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", there.service_key)
    made = open_db(DatabaseConfig(), installation_redactor())
    assert isinstance(made, RestDb)
    return made


def said(call: Call) -> tuple[Any, ...]:
    """What a request asks for; whether a value that needs no quotes has some is all the same."""
    query = {k: v.replace('"', "") for k, v in call.query}
    return call.method, call.path, query, json.loads(call.body) if call.body else None


def test_our_requests_are_those_of_the_official_client(there: PostgRest, db: RestDb) -> None:
    key = {"apikey": there.service_key, "Authorization": f"Bearer {there.service_key}"}
    official = SyncPostgrestClient(f"{there.url}/rest/v1", headers=key)
    wanted = "id,status,created_at,last_heartbeat,updated_at,runpod_id"
    official.from_("workers").select(wanted).order("created_at", desc=True).limit(500).execute()
    rows = {r.id: r for r in db.workers()}
    assert {k: (r.pod_id, r.heartbeat) for k, r in rows.items()} == {"w1": ("p1", BEAT), "w2": ("", None)}
    wanted = "id,status,worker_id,generation_started_at"
    official.from_("tasks").select(wanted, count=CountMethod.exact).eq("status", "In Progress").limit(5000).execute()
    assert [t.worker for t in db.tasks()] == ["w1"]
    official.from_("tasks").select("id", count=CountMethod.exact).eq("status", "Queued").limit(1).execute()
    assert db.queued() == 2
    change = official.from_("workers").update({"status": "terminated"}).eq("id", "w1").eq("status", "spawning")
    taken = change.eq("last_heartbeat", BEAT.isoformat()).eq("runpod_id", "p1").execute()
    assert len(taken.data) == 1
    assert db.mark(rows["w1"], "terminated") == 0  # the official client was first
    change = official.from_("workers").update({"status": "spawning"}).eq("id", "w2").eq("status", "spawning")
    assert len(change.is_("last_heartbeat", "null").or_("runpod_id.is.null,runpod_id.eq.").execute().data) == 1
    assert db.mark(rows["w2"], "spawning") == 1
    theirs, ours = there.calls[0::2], there.calls[1::2]
    assert [said(c) for c in ours] == [said(c) for c in theirs]
    assert ["count=exact" in c.prefer for c in ours] == [False, True, True, False, False]
    assert ["return=representation" in c.prefer for c in ours] == [False, False, False, True, True]


def test_tasks_that_the_server_cut_off_are_not_read_as_none(there: PostgRest, db: RestDb, postgres: Postgres) -> None:
    """PostgREST's max-rows shortens an answer without a word; a task that is not seen must not count as not there."""
    postgres.do("INSERT INTO tasks SELECT 'more ' || n, 'In Progress', 'w1' FROM generate_series(1, 1699) n")
    with pytest.raises(TransportError, match="only 1000 of 1700"):
        db.tasks()


def test_a_row_that_changed_is_not_marked_and_a_refusal_is_told(
    there: PostgRest, db: RestDb, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = WorkerRow(id="w2", status="spawning")
    postgres.do("UPDATE workers SET runpod_id = 'p2' WHERE id = 'w2'")
    assert db.mark(read, "terminated") == 0
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "service-key-for-tests")
    with pytest.raises(TransportError, match="Invalid API key") as e:
        open_db(DatabaseConfig(), installation_redactor()).workers()
    assert e.value.reason is UnknownReason.DENIED
    assert "service-key-for-tests" not in str(e.value)
