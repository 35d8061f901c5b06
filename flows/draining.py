"""A worker that is being stopped leaves its mark, and the pool takes no new run meanwhile. What a lost machine left is lifted.

The pool can only be stopped as a whole. It goes on when the last mark is taken away; a pool that a person has paused has no
mark and stays paused.
"""

from datetime import datetime, timedelta
from typing import Any

from flows import store
from flows.clock import server_now
from flows.pool import pause_pool

MARK = "draining_"
LIMIT_S = 600.0  # its runs are waited for so long
STOP_S = 60.0  # and then the worker itself has to end


def begin(name: str, pool: str) -> None:
    """Marks this worker as being stopped; the pool takes no new run."""
    store.set_variable(MARK + name, {"since": server_now().isoformat(), "pool": pool})
    pause_pool(pool, True)


def end(name: str, pool: str) -> None:
    """This worker is gone, or there again. The pool goes on, unless another is being stopped right now."""
    store.delete_variable(MARK + name)
    now = server_now()
    if not any(draining(mark, now) for mark in store.variables(MARK).values()):
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
    for pool in {str(mark.get("pool", "gpu-runbooks")) for mark in lost.values()}:
        pause_pool(pool, False)
    return [f"{name}: lost while it drained; the pool accepts runs again" for name in lost]
