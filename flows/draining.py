"""A worker that is being stopped leaves its mark, and the pool takes no new run meanwhile. What a lost machine left is lifted.

The pool can only be stopped as a whole. It goes on when the last mark is taken away. A pool that a person had paused before
stays paused: each mark says so.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from flows import store
from flows.clock import server_now
from flows.pool import pause_pool, pool_is_paused

MARK = "draining_"
PERSON = "paused_before"  # the pool was, by a person
LIMIT_S = 600.0  # its runs are waited for so long
STOP_S = 60.0  # and then the worker itself has to end


def begin(name: str, pool: str) -> None:
    """Marks this worker as being stopped; the pool takes no new run."""
    now = server_now()
    lift_lost(now)
    paused = bool(pool_is_paused(pool))  # read before the marks: whoever paused it for a drain left one
    marks = store.variables(MARK)
    by_person = _by_person(marks, pool) if marks else paused
    store.set_variable(MARK + name, {"since": now.isoformat(), "pool": pool, PERSON: by_person})
    pause_pool(pool, True)


def end(name: str, pool: str) -> None:
    """This worker is gone, or there again. The pool goes on, unless another is being stopped right now, or nobody was.

    One that was started without having been stopped before has no mark: it leaves the pool as it is."""
    marks, now = store.variables(MARK), server_now()
    mine = marks.pop(name, None)
    if mine is None:
        return
    store.delete_variable(MARK + name)
    if not any(draining(mark, now) for mark in marks.values()) and not mine.get(PERSON):
        pause_pool(pool, False)


def draining(mark: dict[str, Any], now: datetime) -> bool:
    """False for a mark whose machine was lost while it drained: nothing drains for so long. By the server's clock."""
    return now - datetime.fromisoformat(str(mark["since"])) < timedelta(seconds=LIMIT_S + STOP_S)


def lift_lost(now: datetime) -> list[str]:
    """Takes away the marks of lost machines; the pool goes on when no other worker is being stopped. Returns what was done."""
    marks = store.variables(MARK)
    lost = {name: mark for name, mark in marks.items() if not draining(mark, now)}
    for name in lost:
        store.delete_variable(MARK + name)
    if not lost or len(lost) < len(marks):
        return [f"{name}: lost while it drained; other workers are still draining" for name in lost]
    pools = {str(mark.get("pool", "gpu-runbooks")) for mark in lost.values()}
    again = {pool for pool in pools if not _by_person(lost, pool)}
    for pool in again:
        pause_pool(pool, False)
    how = "the pool accepts runs again" if again else "the pool stays paused, as a person had left it"
    return [f"{name}: lost while it drained; {how}" for name in lost]


def _by_person(marks: Mapping[str, dict[str, Any]], pool: str) -> bool:
    return any(mark.get(PERSON) and mark.get("pool") == pool for mark in marks.values())
