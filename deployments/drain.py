"""For service units: `python -m deployments.drain [WORKER]` before a worker is stopped, `--resume` when it is gone or started.

A process worker that is told to end kills the runs it started, in the middle of an action. So first no worker takes new
runs, and the runs of this machine come to their end (ten minutes at most). Waiting approvals have no process; they stay.
The pool can only be stopped as a whole: it goes on as soon as no worker is being stopped any more (flows/draining.py).
"""

import socket
import sys
import time

from prefect.client.schemas.objects import FlowRun, StateType

from deployments.cli.ending import ended
from deployments.pool import POOL
from flows import draining, store
from flows.draining import LIMIT_S
from runbooks.core.names import slug
from tasks.this_machine import this_process

EVERY_S = 2.0


def main(words: list[str]) -> int:
    """0 when nothing runs here any more, 1 if the limit was reached."""
    resume = words[:1] == ["--resume"]
    mine = slug(this_process().host, *words[resume:]).replace("-", "_")
    if resume:
        draining.end(mine, POOL)
        return 0
    draining.begin(mine, POOL)
    deadline = time.monotonic() + LIMIT_S
    while busy := [r.name for r in running_here()]:
        if time.monotonic() > deadline:
            print(f"still running after {LIMIT_S:.0f} s: {', '.join(busy)}", file=sys.stderr)
            return 1
        print(f"waiting for {len(busy)} run(s) on {socket.gethostname()}: {', '.join(busy)}", file=sys.stderr)
        time.sleep(EVERY_S)
    return 0


def running_here() -> list[FlowRun]:
    """Runbook and action runs whose process is on this machine."""
    host = this_process().host
    found = [r for tag in (store.RUNBOOK_TAG, store.ACT_TAG) for r in store.find_runs([tag], [StateType.RUNNING])]
    return [r for r in found if r.labels.get("owner.host", host) == host]


if __name__ == "__main__":
    raise SystemExit(ended(lambda: main(sys.argv[1:]), wants_json=False))
