"""The edge functions and database functions of the stand-in: their answers in 2025 and in 2026, and who called one that writes."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from postgrest import APIError

from tests.support.edge_functions import HANDLERS, READ_ONLY_FUNCTIONS
from tests.support.postgres import run_sql
from tests.support.postgrest import PostgRest
from tests.tasks.orchestrator.test_postgrest_stand_in import TLS, client, plain

A = UUID(int=1)


def call(there: PostgRest, name: str, body: Any = None, *, method: str = "POST", key: str | None = "service") -> httpx.Response:
    """One function, with the service's key."""
    bearer = {"Authorization": f"Bearer {there.service_key if key == 'service' else key}"} if key else {}
    return httpx.request(method, f"{there.url}/functions/v1/{name}", json=body, headers=bearer, verify=TLS)


def user(there: PostgRest, number: int, **fields: Any) -> str:
    """A user with one project; its id."""
    made, id = client(there), str(UUID(int=number))
    made.from_("users").insert({"id": id, "credits": 10} | fields).execute()
    made.from_("projects").insert({"id": id, "user_id": id}).execute()
    return id


def task(there: PostgRest, project: str, **fields: Any) -> str:
    """One task of a project; its id."""
    id: str = client(there).from_("tasks").insert({"task_type": "image", "project_id": project} | fields).execute().data[0]["id"]
    return id


def row(there: PostgRest, id: str) -> tuple[str, str | None, str | None]:
    """State, worker and result of a task."""
    return tuple(run_sql(there.database.url, "SELECT status::text, worker_id, output_location FROM tasks WHERE id = $1", id)[0])


@pytest.fixture
def queue(there: PostgRest) -> PostgRest:
    """Six queued tasks, each held by another thing or by none, and five that run."""
    client(there).from_("task_types").insert([{"name": "image", "run_type": "gpu"}, {"name": "words", "run_type": "api"}]).execute()
    client(there).from_("workers").insert({"id": "w1", "status": "active"}).execute()
    fine, poor, local, busy = (
        user(there, 1), user(there, 2, credits=0), user(there, 3, settings={"allows_cloud": False}), user(there, 4),
    )  # fmt: skip
    task(there, fine)
    task(there, poor)
    task(there, local)
    task(there, fine, dependant_on=[task(there, fine, status="Failed")])
    task(there, fine, task_type="words")
    for _ in range(5):
        task(there, busy, status="In Progress", worker_id="w1")
    task(there, busy)
    there.calls.clear()
    return there


def test_why_nothing_is_claimed_is_told_by_functions_that_only_read(queue: PostgRest) -> None:
    made = client(queue)
    ask: Callable[[str, dict[str, Any]], Any] = lambda name, given: made.rpc(name, given).execute().data  # noqa: E731
    assert ask("count_eligible_tasks_service_role", {"p_run_type": "gpu"}) == 1
    assert ask("count_eligible_tasks_service_role", {"p_run_type": "gpu", "p_include_active": True}) == 6
    (held,) = ask("count_queued_tasks_breakdown_service_role", {"p_run_type": "gpu"})
    assert held == {"claimable_now": 1, "blocked_by_capacity": 1, "blocked_by_deps": 1, "blocked_by_settings": 2, "total_queued": 5}
    why = ask("analyze_task_availability_service_role", {"p_run_type": "gpu", "p_include_active": True})
    assert why["totals"] == {"queued_only": 1, "active_only": 5, "queued_plus_active": 6}
    assert why["rejection_reasons"] == {"no_credits": 1, "cloud_disabled": 1, "concurrency_limit": 1, "dependency_blocked": 1, "unknown": 0}
    stats = ask("per_user_capacity_stats_service_role", {})
    assert stats == why["user_stats"]
    assert [u["at_limit"] for u in stats] == [False, False, False, True]
    assert len(ask("func_get_tasks_by_status", {"status_filter": ["In Progress"]})) == 5
    assert [ask("get_task_run_type", {"p_task_type": t}) for t in ("words", "image", "never heard of")] == ["api", "gpu", "gpu"]
    assert [ask("all_dependencies_complete", {"p_dependant_on": ids}) for ids in ([], [str(uuid4())])] == [True, False]
    totals = call(queue, "task-counts", {"run_type": "gpu"}).json()["totals"]
    assert totals == {
        "queued_only": 1, "active_only": 5, "queued_plus_active": 6, "potentially_claimable": 1,
        "blocked_by_capacity": 1, "blocked_by_deps": 1, "blocked_by_settings": 2,
    }  # fmt: skip
    assert queue.changing() == []


def test_the_database_of_2025(then: PostgRest) -> None:
    """One dependency, any kind of task, a heartbeat from birth, totals without what holds a task back, errors as text."""
    made = client(then)
    mine = user(then, 1)
    first = task(then, mine, task_type="a kind that is in no table", status="Complete")
    task(then, mine, dependant_on=first)
    task(then, mine, dependant_on=str(uuid4()))
    (worker,) = made.from_("workers").insert({"id": "w1", "status": "spawning"}).execute().data
    assert worker["last_heartbeat"] == worker["created_at"]
    assert call(then, "task-counts", {}).json()["totals"] == {"queued_only": 1, "active_only": 0, "queued_plus_active": 1}
    refused = call(then, "task-counts", {}, key=None)
    assert (refused.status_code, refused.text) == (401, "Missing or invalid Authorization header")
    assert call(then, "update-task-status", {"task_id": first, "status": "Failed"}).status_code == 400
    assert call(then, "update-task-status", {"task_id": first, "status": "Queued"}).status_code == 200
    assert made.rpc("func_claim_available_task", {"worker_id_param": "w1"}).execute().data[0]["worker_id"] == "w1"


def test_get_tells_a_function_that_is_there_and_changes_nothing(queue: PostgRest) -> None:
    before = plain(queue, "SELECT * FROM tasks ORDER BY id")
    for name in HANDLERS:
        got = call(queue, name, method="GET", key=None)
        assert (got.status_code, got.headers["Allow"], got.json()["errorCode"]) == (405, "POST", "method_not_allowed")
    queue.functions.deployed.remove("complete_task")
    for name in ("complete-task", "mark-task-failed", "complete_task"):
        got = call(queue, name, method="GET", key=None)
        assert (got.status_code, got.json()) == (404, {"code": "NOT_FOUND", "message": "Requested function was not found"})
    assert call(queue, "task-counts", {}, key=None).json()["errorCode"] == "authentication_failed"
    assert call(queue, "task-counts", {}, key="of another project").status_code == 401
    assert call(queue, "task-counts", {}, key=queue.anon_key).json()["errorCode"] == "service_role_required"
    assert plain(queue, "SELECT * FROM tasks ORDER BY id") == before
    assert {c.path.rpartition("/")[2] for c in queue.calls if c.method == "POST"} <= READ_ONLY_FUNCTIONS
    assert queue.changing() == []


def test_a_claim_claims_whatever_it_is_told(queue: PostgRest) -> None:
    got = call(queue, "claim-next-task", {"worker_id": "w1", "run_type": "gpu", "dry_run": True})
    assert (got.status_code, got.json()["task_type"]) == (200, "image")
    assert call(queue, "claim-next-task", {"worker_id": "w1", "run_type": "gpu"}).status_code == 204
    assert call(queue, "claim-next-task", {"run_type": "api"}).json()["errorCode"] == "internal_server_error"  # an id that no row has
    assert row(queue, got.json()["task_id"]) == ("In Progress", "w1", None)
    assert [c.path for c in queue.changing()] == ["/functions/v1/claim-next-task"] * 3


def test_what_ends_a_task(queue: PostgRest) -> None:
    one = plain(queue, "SELECT id FROM tasks WHERE status = 'In Progress' LIMIT 1")[0]["id"]
    assert call(queue, "complete_task", {}).json()["errorCode"] == "task_id_required"
    assert call(queue, "complete_task", {"task_id": one, "storage_path": "a/b.mp4"}).json() == {"success": True}
    assert call(queue, "complete_task", {"task_id": one, "storage_path": "c.mp4"}).json() == {"success": False}
    wrong = call(queue, "update-task-status", {"task_id": one, "status": "Failed"})
    assert (wrong.status_code, wrong.json()["message"]) == (409, "Cannot go from Complete to Failed; allowed: none")
    assert call(queue, "update-task-status", {"task_id": str(uuid4()), "status": "Failed"}).status_code == 404
    assert call(queue, "update-task-status", {"task_id": "x", "status": "done"}).status_code == 400
    two = plain(queue, "SELECT id FROM tasks WHERE status = 'In Progress' LIMIT 1")[0]["id"]
    assert call(queue, "update-task-status", {"task_id": two, "status": "Queued", "clear_worker": True}).status_code == 200
    assert (row(queue, two), row(queue, one)) == (("Queued", None, None), ("Complete", "w1", "a/b.mp4"))


def test_segments_that_are_not_numbered_or_nowhere_are_left_out(queue: PostgRest) -> None:
    made, run = client(queue), str(uuid4())
    made.from_("task_types").insert([{"name": "travel_segment"}, {"name": "individual_travel_segment"}]).execute()
    rows: list[tuple[str, Any, str | None]] = [
        ("travel_segment", 0, "a"), ("individual_travel_segment", 1, "b"), ("travel_segment", "2", "c"), ("travel_segment", 3, None),
    ]  # fmt: skip
    for kind, number, at in rows:
        params = {"orchestrator_run_id": run, "segment_index": number}
        task(queue, str(A), task_type=kind, status="Complete", output_location=at, params=params)
    failed = {"orchestrator_run_id": run, "segment_index": 4}
    task(queue, str(A), task_type="travel_segment", status="Failed", output_location="e", params=failed)
    ask = {"run_id": run}
    assert call(queue, "get-completed-segments", ask).json() == [
        {"segment_index": 0, "output_location": "a"}, {"segment_index": 1, "output_location": "b"},
    ]  # fmt: skip
    assert call(queue, "get-completed-segments", {"run_id": str(uuid4())}).json() == []
    assert call(queue, "get-completed-segments", {}).status_code == 400
    queue.functions.max_rows = 1
    assert len(call(queue, "get-completed-segments", ask).json()) == 1


WRITERS: dict[str, dict[str, Any]] = {
    "claim_next_task_service_role": {"p_worker_id": "w1", "p_run_type": "gpu"},
    "claim_next_task_user_pat": {"p_user_id": str(A)},
    "func_mark_task_failed": {"task_id_param": "TASK", "error_message_param": "x"},
    "func_mark_task_complete": {"task_id_param": "TASK"},
    "func_reset_orphaned_tasks": {"failed_worker_ids": ["w1"]},
    "func_update_worker_heartbeat": {"worker_id_param": "nobody"},
    "func_worker_heartbeat_with_logs": {"worker_id_param": "nobody", "status_param": "crashed"},
    "func_insert_logs_batch": {"logs": [{"source_type": "worker", "source_id": "w1", "log_level": "INFO", "message": "m"}]},
    "cascade_task_failure": {"p_task_id": "FAILED"},
    "auto_fail_stale_tasks": {},
    "func_cleanup_old_logs": {},
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_changes_rows_when_it_is_posted_and_none_when_it_is_read(queue: PostgRest, name: str) -> None:
    """So a test that finds no change, and no call in the record, has proven something."""
    made = client(queue)
    ids = {
        "TASK": plain(queue, "SELECT id FROM tasks WHERE status = 'In Progress' ORDER BY id LIMIT 1")[0]["id"],
        "FAILED": plain(queue, "SELECT id FROM tasks WHERE status = 'Failed'")[0]["id"],
    }
    given = {k: ids.get(v, v) if isinstance(v, str) else v for k, v in WRITERS[name].items()}
    if name == "auto_fail_stale_tasks":
        made.from_("tasks").update({"updated_at": "2026-01-01T00:00:00Z"}).eq("id", ids["TASK"]).execute()
    if name == "func_cleanup_old_logs":
        old = {"source_type": "worker", "source_id": "w1", "log_level": "INFO", "message": "m", "timestamp": "2026-01-01T00:00:00Z"}
        made.from_("system_logs").insert(old).execute()
    queue.calls.clear()

    def world() -> list[Any]:
        return [plain(queue, f"TABLE {table} ORDER BY id") for table in ("tasks", "workers", "system_logs")]

    before = world()
    with pytest.raises(APIError) as e:
        made.rpc(name, given | ({"logs": json.dumps(given["logs"])} if "logs" in given else {}), get=True).execute()
    assert e.value.code == "25006"
    assert (world(), queue.changing()) == (before, [])
    made.rpc(name, given).execute()
    assert world() != before
    assert [c.path for c in queue.changing()] == [f"/rest/v1/rpc/{name}"]
