"""For service units: `python -m deployments.drain [WORKER]` before a worker is stopped, `--resume` when it is gone or started.

A process worker that is told to end kills the runs it started, in the middle of an act. So first no worker takes new
runs, and the runs of this machine come to their end (ten minutes at most). Waiting approvals have no process; they stay.
The pool can only be stopped as a whole: it goes on as soon as no worker is being stopped any more.
"""

import socket
import sys
import time
from datetime import datetime, timedelta
from typing import Any

from prefect.client.schemas.objects import FlowRun, StateType

from deployments.server import POOL
from flows import store
from runbooks.core.names import slug
from tasks.context import utc_now
from tasks.this_machine import this_process

LIMIT_S, EVERY_S = 600.0, 2.0
MARK = "draining_"


def main(words: list[str]) -> int:
    """0 when nothing runs here any more, 1 if the limit was reached."""
    resume = words[:1] == ["--resume"]
    mine = MARK + slug(this_process().host, *words[resume:]).replace("-", "_")
    if resume:
        return go_on(mine)
    store.set_variable(mine, {"since": utc_now().isoformat()})
    store.pause_pool(POOL, True)
    deadline = time.monotonic() + LIMIT_S
    while busy := [r.name for r in running_here()]:
        if time.monotonic() > deadline:
            print(f"still running after {LIMIT_S:.0f} s: {', '.join(busy)}", file=sys.stderr)
            return 1
        print(f"waiting for {len(busy)} run(s) on {socket.gethostname()}: {', '.join(busy)}", file=sys.stderr)
        time.sleep(EVERY_S)
    return 0


def go_on(mine: str) -> int:
    """This worker is gone, or there again. The pool goes on, unless another is being stopped right now."""
    store.delete_variable(mine)
    if not any(_young(v) for v in store.variables(MARK).values()):
        store.pause_pool(POOL, False)
    return 0


def _young(mark: dict[str, Any]) -> bool:
    """False for one whose machine was lost while it drained."""
    return utc_now() - datetime.fromisoformat(str(mark["since"])) < timedelta(seconds=LIMIT_S + 60)


def running_here() -> list[FlowRun]:
    """Runbook and act runs whose process is on this machine."""
    host = this_process().host
    found = [r for tag in (store.RUNBOOK_TAG, store.ACT_TAG) for r in store.find_runs([tag], [StateType.RUNNING])]
    return [r for r in found if r.labels.get("owner.host", host) == host]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
