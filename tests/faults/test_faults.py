"""A run killed at any point, then carried on: no act twice, every run ends, a true report, a usable target."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.states import Scheduled

from flows import store
from flows.alert_notes import ALERT_TAG, note_over, note_taken
from flows.engine.approval import answer_run
from flows.engine.lock import lock_all, release
from flows.reaper import sweep
from runbooks.core.plan import Plan, Step
from tasks.context import utc_now
from tasks.this_machine import start_ticks
from tests.faults.fault import struck
from tests.scorecard import notes
from tests.support.engine_rig import Rig, World
from tests.support.set_state import set_state
from tests.support.soak import record, recorded
from tests.support.toy import acts_done, read_world, write_world

pytestmark = pytest.mark.scored(fault="link cut, retried, raced or stopped", point="by hand")

BEFORE_THE_ACT = (
    "started",
    "gathered",
    "judged",
    "settled",
    "claimed",
    "gathered-again",
    "budgeted",
    "acting",
    "step-begins",
)
AFTER_THE_ACT = ("step-done", "acted", "verified", "reported")


def carry_on(w: World, rounds: int = 8) -> None:
    """What reaper and workers do until nothing is left to do. Time is passed on, so that nothing is waited for."""
    for _ in range(rounds):
        sweep(utc_now() + timedelta(seconds=200))
        w.work()
        if all(r.state and (r.state.is_final() or r.state.is_paused()) for r in runs_on(w)):
            return


def runs_on(w: World) -> list[Any]:
    found = [r for r in store.find_runs([store.RUNBOOK_TAG]) if r.parameters.get("target") == w.name]
    acts = store.find_runs([store.ACT_TAG])
    return found + [a for a in acts if a.parameters.get("about", {}).get("target") == w.name]


def check(w: World, allowed_acts: int) -> None:
    """The invariants, whatever was killed."""
    acts = [a for a in acts_done(w.rig.worlds, w.name) if a.startswith("fix")]
    assert len(acts) <= allowed_acts, f"acted {len(acts)} times: {acts}"
    states = [(r.name, r.state.name if r.state else None) for r in runs_on(w)]
    assert all(r.state and (r.state.is_final() or r.state.is_paused()) for r in runs_on(w)), states
    reports = w.reports()
    assert reports, f"no report at all; runs: {states}"
    last = reports[-1]
    sick = bool(read_world(w.name)["sick"])
    seen = (last["after"] or last["diagnosis"])["state"]
    assert seen == ("sick" if sick else "healthy"), (
        f"the last report says {seen}, the world is {'sick' if sick else 'well'}"
    )
    usable(w)


def usable(w: World) -> None:
    """The target's lock can be taken again."""
    step = Step(kind="toy-fix", owner=w.name, args={}, commands=(), effect="")
    locks = lock_all(Plan(name="again", steps=(step,), for_causes=("c",)), {"runbook_run": "test", "target": "-"})
    release(locks, "only a test")


@pytest.mark.parametrize("point", BEFORE_THE_ACT + AFTER_THE_ACT)
def test_sigkill_of_the_run(rig: Rig, point: str) -> None:
    w = rig.world()
    w.arm(point)
    w.run("auto")
    assert struck(w.fault)
    done = len(acts_done(rig.worlds, w.name))
    assert done == (0 if point in BEFORE_THE_ACT else 1)
    carry_on(w)
    assert len(acts_done(rig.worlds, w.name)) == done  # carrying on never acts by itself
    check(w, 1)


@pytest.mark.parametrize("point", ["gathered", "claimed", "step-begins", "step-done", "verified"])
def test_sigterm_of_the_run(rig: Rig, point: str) -> None:
    w = rig.world()
    w.arm(point, "SIGTERM")
    w.run("auto")
    assert struck(w.fault)
    carry_on(w)
    check(w, 1)


@pytest.mark.parametrize("point", ["asking", "gathered", "decided", "claimed", "step-begins", "step-done"])
def test_sigkill_around_an_approval(rig: Rig, point: str) -> None:
    """Killed while asking, or after the approval in the process that carries on."""
    w = rig.world()
    if point == "asking":
        w.arm(point)
    run = w.run("approve")
    if point != "asking":
        assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
        w.arm(point)
        w.work(fault=True)
    assert struck(w.fault)
    carry_on(w)
    check(w, 1)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("gathered", marks=pytest.mark.soak),
        "claimed",
        "step-begins",
        "step-done",
        pytest.param("verified", marks=pytest.mark.soak),
    ],
)
def test_sigkill_of_the_server(rig: Rig, point: str) -> None:
    """The server dies under the run and comes back: no act without its record, and everything ends."""
    w = rig.world()
    server = rig.server_pid()
    w.arm(point, "SIGKILL", pid=server)
    pid, _ = w.start_run("auto")
    deadline = time.monotonic() + 30
    while (not struck(w.fault) or start_ticks(server) is not None) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert struck(w.fault)
    rig.start_server()
    rig.wait(pid)
    carry_on(w)
    check(w, 1)


@pytest.mark.parametrize("look", [1, 2, 3])
@pytest.mark.scored(fault="link to the node cut", point="a look")
def test_link_to_the_node_cut(rig: Rig, look: int) -> None:
    """The first reading, the one before the act, or the one that should prove it does not come."""
    w = rig.world(cut_at_look=look)
    w.run("auto")
    acts = len(acts_done(rig.worlds, w.name))
    assert acts == (1 if look == 3 else 0)
    write_world(rig.worlds, w.name, **(read_world(w.name) | {"cut_at_look": 0}))
    carry_on(w)
    report = w.reports()[-1]
    assert report["outcome"] != "fixed" or report["after"]["state"] == "healthy"
    usable(w)


@pytest.mark.scored(fault="Retry in the UI", point="a crashed run")
def test_retry_of_a_crashed_run_in_the_ui_does_not_act_again(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    w.arm("step-done")
    w.work(fault=True)
    assert len(acts_done(rig.worlds, w.name)) == 1
    write_world(rig.worlds, w.name, sick=True, identity=str(read_world(w.name)["identity"]))  # it did not help
    sweep(utc_now() + timedelta(seconds=200))
    set_state(run, Scheduled(name="AwaitingRetry"))  # what the UI's Retry button does
    carry_on(w)
    assert len(acts_done(rig.worlds, w.name)) == 1
    state = store.read_run(run).state
    assert state is not None
    assert state.is_paused()  # the spent approval does not count: it asks again


@pytest.mark.scored(fault="Retry in the UI", point="an action run")
def test_retry_of_an_act_run_is_refused(rig: Rig) -> None:
    w = rig.world()
    run = w.run("auto")
    (act,) = store.find_runs([store.ACT_TAG, f"run:{run}"])
    set_state(act.id, Scheduled(name="AwaitingRetry"))
    carry_on(w)
    assert len(acts_done(rig.worlds, w.name)) == 1
    usable(w)


@pytest.mark.scored(fault="no report can be written", point="its folder")
def test_read_only_report_folder_loses_nothing_and_stops_nothing(rig: Rig) -> None:
    w = rig.world()
    w.out.parent.mkdir(parents=True, exist_ok=True)
    w.out.write_text("a file stands where the folder should be", encoding="utf-8")
    run = w.run("auto")
    assert store.read_run(run).labels["outcome"] == "fixed"
    log = (rig.home / "children.log").read_text()
    assert f"report {run}" in log  # the report is printed where it can't be written


def race(rig: Rig, tries: int) -> None:
    """Two processes claim one owner 0-50 ms apart."""
    notes.tries("two claims 0-50 ms apart", "the lock", tries)
    race = f"race-{uuid4().hex[:8]}"
    for i in range(tries):
        owner, at = f"{race}-{i}", time.time() + 0.25
        outs = [rig.home / f"{race}-{i}-{k}" for k in range(2)]
        pids = [
            rig.start(
                {
                    "do": "claim",
                    "owner": owner,
                    "token": str(k),
                    "out": str(out),
                    "wait_until": at + k * (i % 11) * 0.005,
                }
            )
            for k, out in enumerate(outs)
        ]
        for pid in pids:
            rig.wait(pid)
        found = sorted(out.read_text().split()[0] for out in outs)
        assert found == ["locked", "won"], f"try {i}: {found}"


def test_two_runs_for_one_target_at_the_same_moment(rig: Rig) -> None:
    race(rig, 20)


@pytest.mark.soak
def test_two_runs_for_one_target_200_times(rig: Rig) -> None:
    race(rig, 200)
    record("claim_races", {"tries": 200, "won_twice": 0, "apart_ms": "0-50"})


def test_reaper_leaves_the_living_alone(rig: Rig) -> None:
    """A run that is stopped for a moment is not dead: its process is there."""
    w = rig.world()
    w.arm("claimed", "SIGSTOP")
    pid, _ = w.start_run("auto")
    deadline = time.monotonic() + 30
    while not struck(w.fault) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [line for line in sweep() if w.name in line]
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    assert len(acts_done(rig.worlds, w.name)) == 1
    check(w, 1)


def declare_dead(run: str) -> None:
    from prefect.states import Crashed

    set_state(run, Crashed(message="declared dead by a test"))


def end_its_alert(run: str) -> None:
    store.retag(run, add=[ALERT_TAG])
    found = store.read_run(run)
    note_taken(found, "key", "mark now Toy")
    note_over(found, "mark", utc_now())


@pytest.mark.parametrize("meanwhile", [declare_dead, end_its_alert])
@pytest.mark.scored(fault="declared dead, or its alert ended", point="right before the action")
def test_fencing_a_run_that_may_not_go_on_does_not_act(rig: Rig, meanwhile: Callable[[str], None]) -> None:
    """The run is stopped right before its act, ended by others or left without its alert, then wakes up."""
    w = rig.world()
    w.arm("budgeted", "SIGSTOP")
    pid, id_file = w.start_run("auto")
    deadline = time.monotonic() + 30
    while not struck(w.fault) and time.monotonic() < deadline:
        time.sleep(0.02)
    meanwhile(id_file.read_text())
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    assert acts_done(rig.worlds, w.name) == []
    carry_on(w)
    check(w, 0)


def test_soak_result_is_committed() -> None:
    """The last soak's numbers are in the repository."""
    assert recorded()["claim_races"] == {"tries": 200, "won_twice": 0, "apart_ms": "0-50"}
