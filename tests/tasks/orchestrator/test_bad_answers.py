"""Every bad answer of the platform as the official client sees it, and as our reader of the workers' tables takes it: never as empty."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from postgrest import APIError, CountMethod, SyncPostgrestClient

from runbooks.core.orchestrator_config import DatabaseConfig, WorkerTable
from runbooks.core.reading import UnknownReason
from runbooks.parsers.worker_rows import WorkerRow
from tasks.clients.worker_db import open_db
from tasks.clients.worker_rest import RestDb
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError
from tests.support.bad_answers import CUT_OFF, EMPTIED, FUNCTION_ANSWERS, PLATFORM_ANSWERS, REST_ANSWERS, Bad
from tests.support.orchestrator_incidents import beyond_the_cut
from tests.support.postgres import run_sql
from tests.support.postgrest import PostgRest
from tests.tasks.orchestrator.conftest import TABLES
from tests.tasks.orchestrator.test_postgrest_stand_in import client

WORKERS, COUNTS = "/rest/v1/workers", "/functions/v1/task-counts"
IN_WORDS = REST_ANSWERS | {k: v for k, v in PLATFORM_ANSWERS.items() if v.status >= 300}
Made = Callable[..., RestDb]


@pytest.fixture
def three(there: PostgRest) -> PostgRest:
    """Three workers, one with two tasks."""
    made = client(there)
    made.from_("workers").insert([{"id": f"w{n}", "status": "active", "metadata": {"runpod_id": f"p{n}"}} for n in range(3)]).execute()
    made.from_("task_types").insert({"name": "image"}).execute()
    made.from_("tasks").insert([{"task_type": "image", "status": "In Progress", "worker_id": "w1"}] * 2).execute()
    made.from_("tasks").insert({"task_type": "image"}).execute()
    there.calls.clear()
    return there


@pytest.fixture
def ours(three: PostgRest, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Our reader of it."""

    def made(timeout_s: float = 5.0, key: str = "") -> RestDb:
        monkeypatch.delenv("DATABASE_URL", raising=False)
        monkeypatch.setenv("SUPABASE_URL", three.url)
        monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", key or three.service_key)
        table = WorkerTable(changed="created_at", metadata="metadata", pod_id="runpod_id")
        db = open_db(DatabaseConfig(workers=table, timeout_s=timeout_s), installation_redactor())
        assert isinstance(db, RestDb)
        return db

    return made


def test_our_reader_reads_it_and_marks_only_the_row_that_it_read(three: PostgRest, ours: Made) -> None:
    db = ours()
    rows = {r.id: r for r in db.workers()}
    assert {k: (r.status, r.pod_id, r.heartbeat) for k, r in rows.items()} == {f"w{n}": ("active", f"p{n}", None) for n in range(3)}
    assert ([t.worker for t in db.tasks()], db.queued()) == (["w1", "w1"], 1)
    assert three.changing() == []
    assert db.mark(rows["w1"], "terminated") == 1
    assert db.mark(rows["w1"], "terminated") == 0
    assert db.mark(WorkerRow(id="w2", status="active"), "error") == 0  # its pod is known by now
    assert {r.id: r.status for r in db.workers()} == {"w0": "active", "w1": "terminated", "w2": "active"}


def test_a_worker_beyond_the_newest_rows_is_found_by_its_id(there: PostgRest, ours: Made) -> None:
    run_sql(there.database.url, f"TRUNCATE {TABLES}")
    beyond_the_cut(there.database.url, datetime(2026, 6, 1, tzinfo=UTC))
    db = ours()
    assert "gpu-old" not in {r.id for r in db.workers()}
    found = db.worker("gpu-old")
    assert found
    assert (found.status, found.pod_id) == ("active", "pod-gpu-old")
    assert db.worker("gpu-nobody") is None


@pytest.mark.parametrize("kind", IN_WORDS)
def test_a_bad_answer_is_an_error_for_both_clients(three: PostgRest, ours: Made, kind: str) -> None:
    """The official client says the code of the answer, or the HTTP status where it has none; ours never says *no workers*."""
    bad = IN_WORDS[kind]
    three.inject("/rest/v1/*", bad)
    said = json.loads(bad.body) if bad.body.startswith("{") else None
    with pytest.raises(APIError) as e:
        client(three).from_("workers").select().execute()
    assert (e.value.code, e.value.details) == ((said.get("code"), said.get("details")) if said else (str(bad.status), bad.body))
    db, row = ours(), WorkerRow(id="w1", status="active", pod_id="p1")
    for read in (db.workers, lambda: db.worker("w1"), db.tasks, db.queued, lambda: db.mark(row, "terminated")):
        with pytest.raises(TransportError) as error:
            read()
        denied = bad.status in (401, 403)
        assert error.value.reason is (UnknownReason.DENIED if denied else UnknownReason.FAILED)
        assert f"HTTP {bad.status}" in error.value.detail
    three.heal()
    assert len(db.workers()) == 3


@pytest.mark.parametrize("kind", FUNCTION_ANSWERS | PLATFORM_ANSWERS)
def test_a_function_s_bad_answer_comes_as_the_platform_gives_it(there: PostgRest, kind: str) -> None:
    bad = (FUNCTION_ANSWERS | PLATFORM_ANSWERS)[kind]
    there.inject(COUNTS, bad, times=1)
    key = {"Authorization": f"Bearer {there.service_key}"}
    got = httpx.post(f"{there.url}{COUNTS}", headers=key, json={"run_type": "gpu"})
    assert (got.status_code, got.text) == (bad.status, bad.body)
    assert {k: got.headers[k] for k in bad.headers} == bad.headers
    healed = httpx.post(f"{there.url}{COUNTS}", headers=key, json={"run_type": "gpu"})
    assert (healed.status_code, healed.json()["totals"]["queued_only"]) == (200, 0)


def test_text_in_place_of_json_is_rows_for_the_official_client_only(three: PostgRest, ours: Made) -> None:
    three.inject("/rest/v1/*", PLATFORM_ANSWERS["text"])
    data: Any = client(three).from_("workers").select().execute().data
    assert data == "upstream is warming up"
    with pytest.raises(TransportError) as e:
        ours().workers()
    assert e.value.reason is UnknownReason.UNPARSABLE


def test_a_busy_server_is_asked_again_by_the_official_client(three: PostgRest) -> None:
    three.inject(WORKERS, REST_ANSWERS["no database"], times=1)
    patient = SyncPostgrestClient(f"{three.url}/rest/v1", headers=dict(client(three).session.headers))
    assert len(patient.from_("workers").select().execute().data) == 3
    assert len(three.calls) == 2


def test_a_connection_that_ends_in_the_middle_is_no_answer(three: PostgRest, ours: Made) -> None:
    three.inject("/rest/v1/*", CUT_OFF)
    with pytest.raises(httpx.RemoteProtocolError):
        client(three).from_("workers").select().execute()
    with pytest.raises(TransportError) as e:
        ours().workers()
    assert e.value.reason is UnknownReason.UNREACHABLE


def test_a_slow_answer_is_timed_out(three: PostgRest, ours: Made) -> None:
    three.inject(WORKERS, Bad(wait_s=1))
    with pytest.raises(httpx.ReadTimeout):
        client(three, timeout_s=0.2).from_("workers").select().execute()
    with pytest.raises(TransportError) as e:
        ours(timeout_s=0.2).workers()
    assert e.value.reason is UnknownReason.TIMED_OUT


def test_an_answer_in_drops_ends_in_time(three: PostgRest, ours: Made) -> None:
    """Each drop comes within the time-out, and the whole answer takes many times as long: the official client waits for it."""
    three.inject(WORKERS, Bad(drip_s=0.02))
    began = time.monotonic()
    assert client(three, timeout_s=0.2).from_("workers").select("id").execute().data == [{"id": f"w{n}"} for n in range(3)]
    assert time.monotonic() - began > 0.4
    began = time.monotonic()
    with pytest.raises(TransportError, match="did not end within") as e:
        ours(timeout_s=0.2).workers()
    assert e.value.reason is UnknownReason.TIMED_OUT
    assert time.monotonic() - began < 4


def test_a_list_cut_on_its_way_is_seen_by_its_count_and_an_emptied_one_by_nothing(three: PostgRest, ours: Made) -> None:
    ask = client(three).from_("workers").select("id", count=CountMethod.exact)
    three.inject("/rest/v1/*", Bad(keep=1))
    got = ask.execute()
    assert (len(got.data), got.count) == (1, 3)
    with pytest.raises(TransportError, match="only 1 of 2"):
        ours().tasks()
    three.heal()
    three.inject("/rest/v1/*", EMPTIED)
    got = ask.execute()
    assert (got.data, got.count) == ([], 0)


def test_another_key_reads_no_tasks_and_says_so_for_workers(three: PostgRest, ours: Made) -> None:
    """The anonymous key is taken for the service's: row security gives an empty list of tasks without a word."""
    db = ours(key=three.anon_key)
    assert db.tasks() == ()
    with pytest.raises(TransportError, match="42501") as e:
        db.workers()
    assert e.value.reason is UnknownReason.DENIED
