"""Forks runs from one warm process: a fresh process per run without 3 s of imports each time.

Reads one JSON job a line on stdin, answers one JSON line. Jobs:
{"do": "run", "slug", "parameters", "id_file"} creates a run and runs it;
{"do": "work", "fleets"} does what a worker does: takes every run of those fleet files that is scheduled and runs it;
{"do": "claim", "owner", "token", "out", "wait_until"} races for a lock, as one of the names of "machine" if given;
{"do": "sweep", "die_at"} is a round of the reaper, killed at its n-th question to the server;
{"do": "tell", "run", "wait_until"} tells people about that run, or of whatever is owed as the reaper does if it is "";
{"do": "wait", "pid"} waits for a child. Extra environment of a child: "env"; another machine: see elsewhere.py.
"""

import gc
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.faults.elsewhere import be_elsewhere
from tests.support.set_state import set_state


def main() -> None:
    """Serves jobs until stdin ends. Only imports happen here; clients and threads live in the children."""
    import flows.launch
    import flows.reaper  # noqa: F401
    from flows.runbooks import zombie_gpu  # noqa: F401
    from runbooks.core.knowledge import load_runbook

    for name in ("prefect.artifacts", "prefect.events.clients", "prefect.events.utilities", "graphviz", "apprise"):
        import_module(name)
    load_runbook("zombie-gpu")
    gc.freeze()  # what is imported stays: no child looks through it for garbage

    print(json.dumps({"ready": os.getpid()}), flush=True)
    children: dict[int, dict[str, Any]] = {}
    for line in sys.stdin:
        job = json.loads(line)
        if job["do"] == "wait":
            _, status = os.waitpid(job["pid"], 0)
            children.pop(job["pid"], None)
            print(json.dumps({"pid": job["pid"], "status": status}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _child(job)
        children[pid] = job
        print(json.dumps({"pid": pid}), flush=True)


def _child(job: dict[str, Any]) -> None:
    os.environ.update(job.get("env", {}))
    be_elsewhere()
    _stand_in()
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        code = {"run": _run, "work": _work, "claim": _claim, "sweep": _sweep, "tell": _tell}[job["do"]](job)
    except SystemExit as e:
        code = int(e.code or 0)
    except BaseException as e:
        print(f"child ended: {type(e).__name__}: {e}", flush=True)
    finally:
        os._exit(code)


def _stand_in() -> None:
    """`$STAND_INS`: real kinds whose work the toy's stand-in does in this process."""
    if kinds := os.environ.get("STAND_INS", "").split():
        from flows.engine.actions import ACTIONS
        from tests.support.toy import stand_in_for

        ACTIONS.update(stand_in_for(*kinds))


def _run(job: dict[str, Any]) -> int:
    from deployments.register import load
    from flows.launch import create_pending, run_here
    from flows.specs import entrypoint

    run = create_pending(job["slug"], job["parameters"])
    Path(job["id_file"]).write_text(str(run.id), encoding="utf-8")
    run_here(load(entrypoint(job["slug"])), run)
    return 0


def _work(job: dict[str, Any]) -> int:
    from prefect.client.schemas.objects import StateType
    from prefect.states import Pending

    from deployments.register import load
    from flows import store
    from flows.launch import run_here
    from flows.specs import entrypoint

    for run in store.find_runs([store.RUNBOOK_TAG], [StateType.SCHEDULED]):
        if run.parameters.get("fleet") not in job["fleets"]:
            continue
        set_state(run.id, Pending(), force=False)
        slug = next(t.removeprefix("runbook:") for t in run.tags if t.startswith("runbook:"))
        run_here(load(entrypoint(slug)), store.read_run(run.id))
    return 0


def _on(name: str, machine: str) -> Any:
    """A context whose only node is a name of that machine."""
    from runbooks.core.fleet import Fleet, Node
    from tasks.context import Context
    from tasks.transport.local import LocalHost

    return Context(Fleet(nodes=(Node(name=name, host=name),)), name, lambda _: LocalHost(machine))


def _sweep(job: dict[str, Any]) -> int:
    import signal
    from datetime import timedelta

    from flows import store
    from flows.reaper import sweep
    from tasks.context import utc_now

    usual, asked = store.ask, 0

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == job["die_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(*args, **more)

    store.ask = counted
    sweep(utc_now() + timedelta(seconds=200))
    return 0


def _tell(job: dict[str, Any]) -> int:
    from flows.notify.delivery import deliver
    from flows.notify.retry import retry_pending
    from tasks.context import utc_now

    time.sleep(max(0.0, job["wait_until"] - time.time()))
    print(deliver(job["run"]) if job["run"] else retry_pending(utc_now()), flush=True)
    return 0


def _claim(job: dict[str, Any]) -> int:
    from flows.engine.lock import lock_all
    from runbooks.core.plan import Plan, Step
    from tasks.context import ActionRefused

    step = Step(kind="toy-fix", owner=job["owner"], args={}, commands=(), effect="")
    plan = Plan(name="p", steps=(step,), for_causes=("c",))
    time.sleep(max(0.0, job["wait_until"] - time.time()))
    try:
        lock_all(plan, {"runbook_run": job["token"]}, _on(job["owner"], job["machine"]) if "machine" in job else None)
    except ActionRefused as e:
        Path(job["out"]).write_text(f"locked {e}", encoding="utf-8")
        return 0
    Path(job["out"]).write_text("won", encoding="utf-8")
    return 0


if __name__ == "__main__":
    main()
