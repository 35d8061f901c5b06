"""The orchestrator's edge functions over its database: their own answers, before and after the change of their error body."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

import asyncpg

from tests.support.bad_answers import FUNCTION_ANSWERS
from tests.support.connections import Connections
from tests.support.orchestrator_tables import Age
from tests.support.postgrest_rest import Answer

READ_ONLY_FUNCTIONS = frozenset({"task-counts", "get-completed-segments"})
MOVES = {
    "Queued": ("In Progress", "Failed", "Cancelled"), "In Progress": ("Complete", "Failed", "Cancelled", "Queued"),
    "Complete": (), "Failed": (), "Cancelled": (),
}  # fmt: skip


class Own(Exception):
    """An error that the function itself answers."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class EdgeFunctions:
    """What is deployed can be taken away: `deployed` is a set of names."""

    def __init__(self, database: Connections, age: Age, max_rows: int) -> None:
        self.database, self.age, self.max_rows, self.deployed = database, age, max_rows, set(HANDLERS)

    def answer(self, method: str, called: str, role: str | None, body: bytes) -> Answer:
        """`role` is None for a bearer token that is missing or unknown. Never raises."""
        if called not in self.deployed:
            absent = FUNCTION_ANSWERS["not deployed"]
            return Answer(absent.status, absent.body, dict(absent.headers))
        try:
            return self._answer(method, called, role, body)
        except Own as e:
            headers = {"Allow": "POST"} if e.status == 405 else {}
            if self.age is Age.OLD:
                return Answer(e.status, str(e), headers | {"Content-Type": "text/plain"})
            own = {"errorCode": e.code, "message": str(e), "recoverable": e.status >= 500}
            return Answer(e.status, json.dumps(own), headers)

    def _answer(self, method: str, called: str, role: str | None, body: bytes) -> Answer:
        if method != "POST":
            raise Own(405, "method_not_allowed", "Method not allowed")
        if role is None:
            raise Own(401, "authentication_failed", "Missing or invalid Authorization header")
        if role != "service_role":
            raise Own(403, "service_role_required", "This function needs the service role")
        try:
            given = json.loads(body or b"{}")
            return self.database.run(lambda c: HANDLERS[called](self, c, given))
        except ValueError:
            raise Own(400, "request_failed", "Invalid JSON body") from None
        except (OSError, asyncpg.PostgresError) as e:
            raise Own(500, "internal_server_error", str(e)) from None


async def _task_counts(here: EdgeFunctions, c: Any, given: Mapping[str, Any]) -> Answer:
    """Totals count what may be claimed, not what is queued: 0 beside a long queue is a true answer."""
    kind = given.get("run_type")
    held = dict(await c.fetchrow("SELECT * FROM count_queued_tasks_breakdown_service_role($1)", kind))
    ours = "WHERE run_type = coalesce($1, run_type) ORDER BY created_at, id"
    active = await c.fetch(f"SELECT id, task_type, worker_id FROM internal.active {ours}", kind)  # noqa: S608
    queued = await c.fetch(f"SELECT id, task_type, created_at FROM internal.queue {ours}", kind)  # noqa: S608
    now = held["claimable_now"]
    totals = {"queued_only": now, "active_only": len(active), "queued_plus_active": now + len(active)}
    if here.age is Age.NEW:
        totals |= {"potentially_claimable": now} | {k: v for k, v in held.items() if k.startswith("blocked_by_")}
    users = await c.fetch("SELECT * FROM per_user_capacity_stats_service_role()")
    recent = await c.fetch("SELECT id, task_type, status FROM tasks ORDER BY created_at DESC, id LIMIT 10")
    lists = {"users": users, "queued_tasks": queued[:100], "active_tasks": active[:100], "recent_tasks": recent}
    return _ok({"totals": totals} | {k: [dict(r) for r in rows] for k, rows in lists.items()})


async def _get_completed_segments(here: EdgeFunctions, c: Any, given: Mapping[str, Any]) -> Answer:
    """No match is an empty list, and rows past the cut or without a number or a place are left out in silence."""
    if not (run := given.get("run_id")):
        raise Own(400, "request_failed", "run_id is required")
    rows = await c.fetch(
        "SELECT params -> 'segment_index' AS place, output_location AS at FROM tasks WHERE status = 'Complete' "
        "AND task_type IN ('travel_segment', 'individual_travel_segment') AND $1 IN (params ->> 'orchestrator_run_id', "
        "params -> 'orchestration_contract' ->> 'run_id') ORDER BY created_at, id LIMIT $2", run, here.max_rows,
    )  # fmt: skip
    whole = [(json.loads(r["place"]), r["at"]) for r in rows if r["place"] and r["at"]]
    return _ok([{"segment_index": n, "output_location": at} for n, at in whole if isinstance(n, int)])


async def _claim_next_task(here: EdgeFunctions, c: Any, given: Mapping[str, Any]) -> Answer:
    """Claims, whatever `dry_run` says."""
    worker = given.get("worker_id") or f"edge-{uuid4().hex[:8]}"
    task = await c.fetchrow("SELECT * FROM claim_next_task_service_role($1, false, $2)", worker, given.get("run_type"))
    if task is None:
        return Answer(204)
    same = {k: task[k] for k in ("task_type", "project_id")}
    return _ok({"task_id": task["id"], "params": json.loads(task["params"])} | same)


async def _update_task_status(here: EdgeFunctions, c: Any, given: Mapping[str, Any]) -> Answer:
    task, new = given.get("task_id"), given.get("status")
    if not task or new not in MOVES:
        raise Own(400, "request_failed", "task_id and status are required")
    old = await c.fetchval("SELECT status::text FROM tasks WHERE id = $1", task)
    if old is None:
        raise Own(404, "request_failed", "Task not found")
    if here.age is Age.OLD and (old, new) == ("Complete", "Failed"):
        raise Own(400, "request_failed", "Cannot fail a complete task")
    if here.age is Age.NEW and new not in MOVES[old]:
        raise Own(409, "request_failed", f"Cannot go from {old} to {new}; allowed: {', '.join(MOVES[old]) or 'none'}")
    sql = "UPDATE tasks SET status = $2::text::task_status, output_location = coalesce($3, output_location), updated_at = now(), "
    sql += "worker_id = CASE WHEN $4 THEN NULL ELSE worker_id END WHERE id = $1"
    await c.execute(sql, task, new, given.get("output_location"), bool(given.get("clear_worker")))
    return _ok({"success": True, "task_id": task, "status": new})


async def _complete_task(here: EdgeFunctions, c: Any, given: Mapping[str, Any]) -> Answer:
    """Only a task in progress becomes complete."""
    if not (task := given.get("task_id")):
        raise Own(400, "task_id_required", "task_id is required")
    sql = "UPDATE tasks SET status = 'Complete', output_location = $2, generation_created = true WHERE id = $1 AND status = 'In Progress'"
    done = await c.execute(sql, task, given.get("storage_path"))
    return _ok({"success": done == "UPDATE 1"})


def _ok(body: Any) -> Answer:
    return Answer(200, json.dumps(body, default=str))


Handler = Callable[[EdgeFunctions, Any, Mapping[str, Any]], Awaitable[Answer]]
HANDLERS: dict[str, Handler] = {
    "task-counts": _task_counts, "get-completed-segments": _get_completed_segments, "claim-next-task": _claim_next_task,
    "update-task-status": _update_task_status, "complete_task": _complete_task,
}  # fmt: skip
