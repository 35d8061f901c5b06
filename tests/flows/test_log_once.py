"""The log of a run that a worker started: no line twice, and no traceback for an outcome."""

import os
import subprocess
import sys
from collections import Counter
from typing import Any

from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.states import Pending

from flows import store
from tests.support.engine_rig import REPO, Rig


def test_a_workers_run_that_ends_red_logs_no_traceback_and_no_line_twice(rig: Rig) -> None:
    w = rig.world()
    about: dict[str, Any] = {"name": None, "tags": [store.RUNBOOK_TAG], "labels": {}, "key": f"log-once/{w.name}", "state": Pending()}
    run = store.create_run("zombie-gpu/zombie-gpu", w.parameters("diagnose"), **about)
    env = os.environ | {"PREFECT__FLOW_RUN_ID": str(run.id), "PYTHONPATH": f"{REPO / 'tests/faults/inject'}:{REPO}", "FAULT": ""}
    env |= {"PREFECT_LOGGING_EXTRA_LOGGERS": "flows,tasks"}
    done = subprocess.run([sys.executable, "-m", "prefect.engine"], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert store.read_run(run.id).state_name == "Something is wrong", done.stderr
    of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id]))
    lines = [line.message for line in store.ask(lambda c: c.read_logs(of_run))]
    assert [line for line in lines if "Traceback" in line or "unexpected exception" in line] == []
    assert {line: n for line, n in Counter(lines).items() if n > 1} == {}
    state = store.read_run(run.id).state
    assert state is not None
    assert sum(str(state.message) in line for line in lines) == 1
    assert {"mode diagnose", f"read {w.name}", "report written: sick"} <= set(lines)
