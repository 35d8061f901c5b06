"""Real worker processes: killed while a resumed run acts, stopped by `down`, started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from prefect.states import Cancelling

from deployments import server
from deployments.pool import POOL
from deployments.processes import stop
from deployments.state import Proc, read_state, write_state
from flows import store
from flows.engine.approval import answer_run
from flows.pool import pause_pool
from flows.reaper import sweep
from tasks.this_machine import start_ticks
from tests.faults.fault import struck
from tests.faults.test_faults import check, usable
from tests.scorecard import notes
from tests.support.engine_rig import REPO, Rig, kill_and_wait
from tests.support.set_state import set_state
from tests.support.toy import acts_done

pytestmark = pytest.mark.scored(fault="a real worker killed or stopped", point="its run")


def start_worker(rig: Rig, fault: str = "") -> Proc:
    """A worker as `up` starts it, with the toy runbook in its processes."""
    state = read_state()
    assert state is not None
    pause_pool(POOL, False)  # as `up` does: a test before this one may have stopped its workers
    os.environ.update(PYTHONPATH=f"{REPO / 'tests/faults/inject'}:{REPO}", FAULT=fault)
    try:
        proc = server.start_process(state, "worker", server.worker_argv())
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.pop("FAULT")
    others = [p for p in state.processes if p.name != "worker"]
    write_state(state.model_copy(update={"processes": (*others, proc)}))
    return proc


@pytest.fixture
def worker(rig: Rig) -> Iterator[Callable[[str], Proc]]:
    started: list[Proc] = []

    def start(fault: str = "") -> Proc:
        started.append(start_worker(rig, fault))
        return started[-1]

    yield start
    for proc in started:
        stop(proc, limit_s=15)


def wait_until(true: Callable[[], bool], limit_s: float = 150.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.1)


def ended(run: str) -> bool:
    state = store.read_run(run).state
    return bool(state and state.is_final())


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_worker_killed_while_its_run_acts(rig: Rig, worker: Callable[[str], Proc], sig: signal.Signals) -> None:
    w = rig.world()
    run = w.run("approve")
    w.arm("step-begins", "SIGSTOP")  # holds the run at its act while the worker is killed
    first = worker(str(w.fault))
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    wait_until(lambda: struck(w.fault))
    child = int(str(store.read_run(run).labels["owner.pid"]))
    notes.fault(f"{sig.name} of the worker", "its run begins a step")
    if sig is signal.SIGKILL:
        kill_and_wait(first.pid)
    else:
        os.kill(first.pid, sig)
        time.sleep(1)
    with suppress(ProcessLookupError):  # the worker may have ended it
        os.kill(child, signal.SIGCONT)
    wait_until(lambda: start_ticks(child) is None)
    stop(first, limit_s=40)  # what systemd does with one that has not ended; else it is found instead of a new one
    wait_until(lambda: start_ticks(first.pid) is None)
    worker("")
    wait_until(lambda: not still_open(w.name))
    check(w, 1)
    assert len(acts_done(rig.worlds, w.name)) <= 1


@pytest.mark.soak
def test_a_run_in_a_worker_that_is_cancelled_in_the_ui_reports_and_does_not_act(
    rig: Rig, worker: Callable[[str], Proc]
) -> None:
    w = rig.world()
    run = w.run("approve")
    w.arm("gathered", "SIGSTOP")
    worker(str(w.fault))
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    wait_until(lambda: struck(w.fault))
    child = int(str(store.read_run(run).labels["owner.pid"]))
    set_state(run, Cancelling(), force=False)
    time.sleep(2)
    os.kill(child, signal.SIGCONT)
    wait_until(lambda: ended(run))
    wait_until(lambda: start_ticks(child) is None)
    state = store.read_run(run).state
    assert state is not None
    assert state.is_cancelled(), state
    assert [r["outcome"] for r in w.reports()] == ["cancelled"]
    assert acts_done(rig.worlds, w.name) == []
    usable(w)


def still_open(target: str) -> list[str]:
    sweep()  # by the true clock: a worker is at work, and to a clock that runs ahead the look it takes would seem dead
    runs = store.find_runs([store.RUNBOOK_TAG]) + store.find_runs([store.ACT_TAG])
    mine = [r for r in runs if target in (r.parameters.get("target"), r.parameters.get("about", {}).get("target"))]
    return [r.name for r in mine if r.state and not r.state.is_final() and not r.state.is_paused()]


def test_down_lets_an_act_finish(rig: Rig) -> None:
    w = rig.world()
    w.arm("step-begins", "SIGSTOP")
    pid, id_file = w.start_run("auto")
    wait_until(lambda: struck(w.fault))
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from deployments.cli.up import drain_runs; from deployments.state import read_state; drain_runs(read_state())",
        ],
        env=os.environ.copy(),
        cwd=REPO,
    )
    time.sleep(3)
    assert waiting.poll() is None  # still waiting for the act
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    assert waiting.wait(timeout=30) == 0
    assert store.read_run(id_file.read_text()).labels["outcome"] == "fixed"
