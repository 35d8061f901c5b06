"""Incidents of the orchestrator as rows of its database: each function makes what stood there when it happened.

`url` is a database of `orchestrator_tables`, with empty tables; `now` is the time at which somebody looks.
"""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.support.postgres import run_sql

VOLUME = "vol-shared"
KINDS = {"image": "gpu", "travel_orchestrator": "gpu", "travel_segment": "gpu", "travel_stitch": "gpu", "words": "api"}
OWNER = UUID(int=1)


def rows(url: str, table: str, *given: dict[str, Any]) -> list[Any]:
    """Insert them, all with the same columns; what the database made of them."""
    assert all(g.keys() == given[0].keys() for g in given)
    names = ", ".join(given[0])
    sql = f"INSERT INTO {table} ({names}) SELECT {names} FROM json_populate_recordset(NULL::{table}, $1) RETURNING *"  # noqa: S608
    return run_sql(url, sql, json.dumps(given, default=str))


def base(url: str) -> None:
    """Kinds of tasks, and one user with credit and a project."""
    rows(url, "task_types", *({"name": k, "run_type": r} for k, r in KINDS.items()))
    user(url, OWNER)


def user(url: str, id: UUID, **fields: Any) -> None:
    """A user with one project of the same id."""
    rows(url, "users", {"id": id, "credits": 10, "settings": {}} | fields)
    rows(url, "projects", {"id": id, "user_id": id})


def worker(
    now: datetime, id: str, status: str = "active", *, age_s: float = 3600, beat_s: float | None = 10, **metadata: Any
) -> dict[str, Any]:
    """A row of `workers`, so old, with a heartbeat so long ago (None: from birth on none), and its pod."""
    born = now - timedelta(seconds=age_s)
    beat = born if beat_s is None else now - timedelta(seconds=beat_s)
    more = {"runpod_id": f"pod-{id}", "orchestrator_status": status} | metadata
    return {"id": id, "instance_type": "RTX 4090", "status": status, "created_at": born, "last_heartbeat": beat, "metadata": more}


def task(now: datetime, kind: str = "image", status: str = "Queued", *, age_s: float = 60, **fields: Any) -> dict[str, Any]:
    """A row of `tasks` of the one user, made so long ago."""
    born = now - timedelta(seconds=age_s)
    return {"task_type": kind, "status": status, "project_id": OWNER, "created_at": born, "params": {}, "attempts": 0} | fields


def line(
    now: datetime, message: str, *, age_s: float = 0, source: str = "worker", level: str = "INFO", **fields: Any
) -> dict[str, Any]:
    """A row of `system_logs`, so old."""
    at = now - timedelta(seconds=age_s)
    return {"timestamp": at, "source_type": source, "source_id": source, "log_level": level, "message": message} | fields


def ssh_key_missing(url: str, now: datetime) -> None:
    """2025-09-12: one worker after the other fails with tasks in the queue, because nobody can log in to start it."""
    base(url)
    rows(url, "tasks", task(now), task(now))
    reason = "Idle with tasks queued"
    rows(url, "workers", *(worker(now, f"gpu-{n:04}", "error", age_s=600 * n + 60, beat_s=None, error_reason=reason) for n in range(990)))


def dead_at_queue_start(url: str, now: datetime) -> None:
    """2025-09-19: active, and it claims nothing: the script ended well, the worker died; its only heartbeat is its birth."""
    base(url)
    rows(url, "tasks", *(task(now, age_s=1200) for _ in range(3)))
    rows(url, "workers", worker(now, "gpu-1", age_s=1500, beat_s=None, promotion_reason="pod RUNNING"))


def killed_in_a_long_task(url: str, now: datetime) -> None:
    """2025-09-28: a long task sends no heartbeat; its worker is given up, the task waits again and nobody held it against it."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1", "error", beat_s=649, error_reason="Stale heartbeat with active tasks (629s old)"))
    rows(url, "tasks", task(now, age_s=2000, generation_started_at=None, updated_at=now - timedelta(seconds=20)))


def held_back_queue(url: str, now: datetime) -> None:
    """2025-10-04: 34 tasks wait and none may be claimed: credit, limit of five, cloud switched off, a failed dependency."""
    base(url)
    poor, local, busy = UUID(int=2), UUID(int=3), UUID(int=4)
    user(url, poor, credits=0)
    user(url, local, settings={"allows_cloud": False})
    user(url, busy)
    rows(url, "workers", worker(now, "gpu-1"))
    rows(url, "tasks", *(task(now, status="In Progress", project_id=busy, worker_id="gpu-1") for _ in range(5)))
    rows(url, "tasks", *(task(now, project_id=who) for who, n in ((poor, 12), (local, 6), (busy, 15)) for _ in range(n)))
    (gone,) = rows(url, "tasks", task(now, status="Failed"))
    rows(url, "tasks", task(now, dependant_on=[gone["id"]]))


def parent_left_in_progress(url: str, now: datetime) -> None:
    """2025-10-07: a worker died in its first second; its task is of a kind that no reset touches and stays in progress."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1", "terminated", age_s=9005, beat_s=9004, error_reason="No heartbeat or activity"))
    taken = {"worker_id": "gpu-1", "generation_started_at": now - timedelta(hours=2.5)}
    rows(url, "tasks", task(now, "travel_orchestrator", "In Progress", age_s=9100, **taken))


def most_start_in_vain(url: str, now: datetime) -> None:
    """2025-10-15: 12 of 14 young workers failed without a heartbeat, because the folder of their log was missing; spawning is blocked."""
    base(url)
    made = [worker(now, f"gpu-{n}", "error" if n < 12 else "active", age_s=60 + 20 * n, beat_s=None if n < 12 else 5) for n in range(14)]
    rows(url, "workers", *made)
    rows(url, "system_logs", line(now, "[FAILURE_RATE] Recent workers: 14, Failed: 12, Rate: 85.7%", source="orchestrator_gpu"))


def log_table_silent(url: str, now: datetime) -> None:
    """2025-10-16: after a deploy no line reaches the table; workers beat and tasks are done all the same."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1"))
    rows(url, "tasks", task(now, status="Complete", worker_id="gpu-1", generation_processed_at=now - timedelta(seconds=30)))
    rows(url, "system_logs", line(now, "Starting orchestrator cycle", age_s=10800, source="orchestrator_gpu"))


def old_rows_in_front(url: str, now: datetime) -> None:
    """2025-10-16: 51 tasks of two months ago became visible and make workers start."""
    base(url)
    rows(url, "tasks", *(task(now, age_s=60 * 86400 + n) for n in range(51)), task(now))


def beats_without_progress(url: str, now: datetime) -> None:
    """2025-10: the guardian beats; the worker itself has said nothing since it switched its model."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1", beat_s=8, vram_total_mb=24564, vram_used_mb=24100))
    rows(url, "tasks", task(now, status="In Progress", worker_id="gpu-1", generation_started_at=now - timedelta(minutes=40)))
    rows(url, "system_logs", line(now, "MODEL SWITCH", age_s=280, source_id="gpu-1", worker_id="gpu-1"))


def completion_not_found(url: str, now: datetime) -> None:
    """2025-12-31: results are uploaded and no task is complete, because the worker calls the function by a name with a hyphen."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1"))
    rows(url, "tasks", *(task(now, status="In Progress", worker_id="gpu-1") for _ in range(3)))
    refused = "[EDGE_FAIL:complete-task:HTTP_404] Requested function was not found"
    rows(url, "system_logs", *(line(now, refused, age_s=60 * n, level="ERROR", source_id="gpu-1") for n in range(3)))


def born_alive(url: str, now: datetime) -> None:
    """2026-01-21, before: a fresh row has a heartbeat from its birth; a second worker is started, and the pod's id was overwritten."""
    base(url)
    for n in (1, 2):
        born = {"id": f"gpu-{n}", "instance_type": "RTX 4090", "status": "spawning", "created_at": now, "metadata": {"ssh_details": {}}}
        rows(url, "workers", born)
    run_sql(url, "UPDATE workers SET last_heartbeat = created_at")


def list_of_ids_too_long(url: str, now: datetime) -> None:
    """2026-03-29: a filter of more than 20 ids is refused in each cycle, so that nothing moves for days."""
    base(url)
    rows(url, "tasks", *(task(now, age_s=8 * 86400) for _ in range(25)))
    said = "Failed to reset orphaned tasks: {'message': 'URI too long', 'code': 400}"
    made = (line(now, said, age_s=30 * n, source="orchestrator_gpu", level="ERROR", cycle_number=9000 - n) for n in range(40))
    rows(url, "system_logs", *made)


def beyond_the_cut(url: str, now: datetime) -> None:
    """2026-04-12: a worker that lives is older than the newest 1,000 rows, and a list without its end does not hold it."""
    base(url)
    ended = (worker(now, f"gpu-{n:04}", "terminated", age_s=60 * n + 60, beat_s=60 * n + 30) for n in range(1200))
    rows(url, "workers", worker(now, "gpu-old", age_s=30 * 86400), *ended)


def phase_never_cleared(url: str, now: datetime) -> None:
    """2026-04-13: it works for half an hour and still says that it starts."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1", age_s=1860, startup_phase="worker_starting", ready_for_tasks=False))
    rows(url, "tasks", task(now, status="Complete", worker_id="gpu-1"), task(now, status="In Progress", worker_id="gpu-1"))


def one_volume_kills_all(url: str, now: datetime) -> None:
    """2026-04-28: 124 of 125 workers died of the same words on one shared volume."""
    base(url)
    said = "startup script failed: line 212, exit code 1"
    dead = (worker(now, f"gpu-{n:03}", "error", beat_s=None, error_reason=said, storage_volume=VOLUME) for n in range(124))
    rows(url, "workers", worker(now, "gpu-fine", storage_volume="vol-other"), *dead)


def live_tests_leaked(url: str, now: datetime) -> None:
    """2026-05-09: four pods of live tests outlived their time; they stand outside the count of the capacity."""
    base(url)
    leaked = (worker(now, f"gpu-test-{n}", age_s=32400, live_test=True, max_lifetime_sec=7200) for n in range(4))
    rows(url, "workers", *leaked, worker(now, "gpu-1", live_test=False))


def long_task_is_reset(url: str, now: datetime) -> None:
    """2026-05-16: a task that takes longer than the silence that is allowed goes back to the queue while its worker works on."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1", beat_s=5))
    started = now - timedelta(seconds=1860)
    rows(url, "tasks", task(now, status="In Progress", worker_id="gpu-1", generation_started_at=started, updated_at=started))


def poison_task(url: str, now: datetime) -> UUID:
    """A defect: a reset does not count, so a task that ends each worker goes round for ever. Its id."""
    base(url)
    (one,) = rows(url, "tasks", task(now, age_s=7200))
    said = f"[CLAIM] Claimed task {one['id']}"
    rows(url, "system_logs", *(line(now, said, age_s=900 * n, task_id=one["id"], worker_id=f"gpu-{n}") for n in range(6)))
    return UUID(str(one["id"]))


def row_came_back(url: str, now: datetime) -> None:
    """A defect: the pod's guardian makes a terminated row active again, and its pod still costs."""
    base(url)
    rows(url, "workers", worker(now, "gpu-1", beat_s=6, terminated_at=str(now - timedelta(minutes=10)), termination_reason="over capacity"))


def result_shortened(url: str, now: datetime) -> str:
    """Six segments are complete, three are found, the stitch is complete and too short. Its run's id."""
    base(url)
    run = "11111111-2222-4333-8444-555555555555"

    def part(n: Any, at: str | None) -> dict[str, Any]:
        params = {"orchestrator_run_id": run, "segment_index": n, "num_total_segments": 6}
        return task(now, "travel_segment", "Complete", params=params, output_location=at)

    files = [f"https://files.invalid/{n}.mp4" for n in range(4)]
    rows(url, "tasks", *(part(n, files[n]) for n in range(3)), part("3", files[3]), part(4, None), part(5, ""))
    params = {"orchestrator_run_id": run, "num_total_segments": 6}
    rows(url, "tasks", task(now, "travel_stitch", "Complete", params=params, output_location="https://files.invalid/short.mp4"))
    rows(url, "system_logs", line(now, "Expected 6 videos for stitch, but found 3", level="WARNING"))
    return run
