"""Each incident's rows hold its deciding reading, asked as a tool asks: by REST, by a function that reads, or by an edge function."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from postgrest import CountMethod

from tests.support import orchestrator_incidents as incidents
from tests.support.postgrest import PostgRest
from tests.tasks.orchestrator.test_function_stand_in import call
from tests.tasks.orchestrator.test_postgrest_stand_in import client

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    """A time of an answer."""
    return datetime.fromisoformat(text)


@pytest.fixture
def made(there: PostgRest) -> Any:
    """The official client of it."""
    return client(there)


def one(made: Any, table: str, **fields: str) -> dict[str, Any]:
    """The one row with these values."""
    ask = made.from_(table).select()
    row: dict[str, Any] = (ask.match(fields) if fields else ask).single().execute().data
    return row


def test_ssh_key_missing(there: PostgRest, made: Any) -> None:
    incidents.ssh_key_missing(there.database.url, NOW)
    got = made.from_("workers").select("status,why:metadata->>error_reason").execute().data
    assert Counter((r["status"], r["why"]) for r in got) == {("error", "Idle with tasks queued"): 990}


def test_dead_at_queue_start(there: PostgRest, made: Any) -> None:
    incidents.dead_at_queue_start(there.database.url, NOW)
    row = one(made, "workers")
    assert (row["status"], row["last_heartbeat"]) == ("active", row["created_at"])
    assert made.rpc("count_eligible_tasks_service_role", {"p_run_type": "gpu"}).execute().data == 3


def test_killed_in_a_long_task(there: PostgRest, made: Any) -> None:
    incidents.killed_in_a_long_task(there.database.url, NOW)
    assert NOW - at(one(made, "workers", status="error")["last_heartbeat"]) == timedelta(seconds=649)
    assert one(made, "tasks", status="Queued")["attempts"] == 0


def test_held_back_queue(there: PostgRest, made: Any) -> None:
    incidents.held_back_queue(there.database.url, NOW)
    why = made.rpc("analyze_task_availability_service_role", {"p_run_type": "gpu"}).execute().data
    held = {"no_credits": 12, "cloud_disabled": 6, "concurrency_limit": 15, "dependency_blocked": 1, "unknown": 0}
    assert why["rejection_reasons"] == held
    assert call(there, "task-counts", {"run_type": "gpu"}).json()["totals"]["queued_only"] == 0
    assert made.from_("tasks").select("id", count=CountMethod.exact, head=True).eq("status", "Queued").execute().count == 34


def test_parent_left_in_progress(there: PostgRest, made: Any) -> None:
    incidents.parent_left_in_progress(there.database.url, NOW)
    left = one(made, "tasks", status="In Progress")
    assert (left["task_type"], NOW - at(left["generation_started_at"])) == ("travel_orchestrator", timedelta(hours=2.5))
    assert one(made, "workers", id=left["worker_id"])["status"] == "terminated"
    assert made.rpc("func_reset_orphaned_tasks", {"failed_worker_ids": ["gpu-1"]}).execute().data == 0


def test_most_start_in_vain(there: PostgRest, made: Any) -> None:
    incidents.most_start_in_vain(there.database.url, NOW)
    young = made.from_("workers").select().gte("created_at", (NOW - timedelta(minutes=30)).isoformat()).execute().data
    assert Counter((r["status"], r["last_heartbeat"] == r["created_at"]) for r in young) == {("error", True): 12, ("active", False): 2}
    assert "Rate: 85.7%" in one(made, "system_logs", source_type="orchestrator_gpu")["message"]


def test_log_table_silent(there: PostgRest, made: Any) -> None:
    incidents.log_table_silent(there.database.url, NOW)
    newest = made.from_("system_logs").select("timestamp").order("timestamp", desc=True).limit(1).execute().data[0]["timestamp"]
    done = made.from_("tasks").select("generation_processed_at").eq("status", "Complete").single().execute().data["generation_processed_at"]
    assert at(done) - at(newest) > timedelta(hours=2)


def test_old_rows_in_front(there: PostgRest, made: Any) -> None:
    incidents.old_rows_in_front(there.database.url, NOW)
    queued = made.from_("tasks").select("created_at").eq("status", "Queued").order("created_at").execute().data
    assert NOW - at(queued[0]["created_at"]) > timedelta(days=59)
    assert sum(NOW - at(q["created_at"]) < timedelta(hours=1) for q in queued) == len(queued) - 51 == 1


def test_beats_without_progress(there: PostgRest, made: Any) -> None:
    incidents.beats_without_progress(there.database.url, NOW)
    said = one(made, "system_logs", worker_id="gpu-1")
    assert (said["message"], at(one(made, "workers")["last_heartbeat"]) - at(said["timestamp"])) == ("MODEL SWITCH", timedelta(seconds=272))


def test_completion_not_found(there: PostgRest, made: Any) -> None:
    incidents.completion_not_found(there.database.url, NOW)
    failed = made.from_("system_logs").select("message").like("message", "%EDGE_FAIL:complete-task:HTTP_404%").execute().data
    assert len(failed) == len(made.from_("tasks").select().eq("status", "In Progress").execute().data) == 3
    assert [call(there, name, method="GET", key=None).status_code for name in ("complete-task", "complete_task")] == [404, 405]


def test_born_alive(then: PostgRest) -> None:
    incidents.born_alive(then.database.url, NOW)
    rows = client(then).from_("workers").select("created_at,last_heartbeat,pod:metadata->>runpod_id").execute().data
    assert [(r["last_heartbeat"] == r["created_at"], r["pod"]) for r in rows] == [(True, None)] * 2


def test_list_of_ids_too_long(there: PostgRest, made: Any) -> None:
    incidents.list_of_ids_too_long(there.database.url, NOW)
    said = made.from_("system_logs").select("cycle_number").like("message", "Failed to reset orphaned tasks:%400%").execute().data
    assert len({s["cycle_number"] for s in said}) == 40
    assert made.from_("tasks").select("id", count=CountMethod.exact).eq("status", "Queued").execute().count == 25


def test_beyond_the_cut(there: PostgRest, made: Any) -> None:
    incidents.beyond_the_cut(there.database.url, NOW)
    newest = made.from_("workers").select("id", count=CountMethod.exact).order("created_at", desc=True).execute()
    assert (len(newest.data), newest.count) == (1000, 1201)
    assert "gpu-old" not in {r["id"] for r in newest.data}
    assert one(made, "workers", status="active")["id"] == "gpu-old"


def test_phase_never_cleared(there: PostgRest, made: Any) -> None:
    incidents.phase_never_cleared(there.database.url, NOW)
    phase = made.from_("workers").select("x:metadata->>startup_phase").single().execute().data["x"]
    assert (phase, len(made.from_("tasks").select().eq("worker_id", "gpu-1").execute().data)) == ("worker_starting", 2)


def test_one_volume_kills_all(there: PostgRest, made: Any) -> None:
    incidents.one_volume_kills_all(there.database.url, NOW)
    got = made.from_("workers").select("at:metadata->>storage_volume,why:metadata->>error_reason").eq("status", "error").execute().data
    assert Counter((r["at"], r["why"]) for r in got) == {("vol-shared", "startup script failed: line 212, exit code 1"): 124}


def test_live_tests_leaked(there: PostgRest, made: Any) -> None:
    incidents.live_tests_leaked(there.database.url, NOW)
    tests = made.from_("workers").select("created_at,most:metadata->max_lifetime_sec").eq("metadata->>live_test", "true").execute().data
    assert [NOW - at(t["created_at"]) > timedelta(seconds=t["most"]) for t in tests] == [True] * 4


def test_long_task_is_reset(there: PostgRest, made: Any) -> None:
    incidents.long_task_is_reset(there.database.url, NOW)
    running, owner = one(made, "tasks", status="In Progress"), one(made, "workers")
    assert at(running["updated_at"]) < NOW - timedelta(minutes=30) < at(owner["last_heartbeat"])


def test_poison_task(there: PostgRest, made: Any) -> None:
    id = str(incidents.poison_task(there.database.url, NOW))
    claims = made.from_("system_logs").select("worker_id").eq("task_id", id).like("message", "[CLAIM]*").execute().data
    assert (len({c["worker_id"] for c in claims}), one(made, "tasks", id=id)["attempts"]) == (6, 0)


def test_row_came_back(there: PostgRest, made: Any) -> None:
    incidents.row_came_back(there.database.url, NOW)
    row = one(made, "workers", status="active")
    assert at(row["metadata"]["terminated_at"]) < at(row["last_heartbeat"])


def test_result_shortened(there: PostgRest, made: Any) -> None:
    run = incidents.result_shortened(there.database.url, NOW)
    found = call(there, "get-completed-segments", {"run_id": run}).json()
    complete = made.from_("tasks").select("id").eq("params->>orchestrator_run_id", run).eq("task_type", "travel_segment").execute().data
    assert (sorted(f["segment_index"] for f in found), len(complete)) == ([0, 1, 2], 6)
    assert one(made, "tasks", task_type="travel_stitch")["status"] == "Complete"
