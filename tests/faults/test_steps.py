"""A step is begun by one process at most, and its owner stays locked while the step's command may still be at work."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelled, Completed

import tasks.this_machine
from flows import store
from flows.engine import node_over, steps
from flows.engine.approval import answer_run
from flows.engine.lock import going_on, lock_all, release
from flows.reaper import sweep
from runbooks.core.plan import Plan, Step
from tasks.context import ActionRefused, utc_now
from tests.faults.fault import struck
from tests.faults.test_faults import carry_on, check
from tests.scorecard import notes
from tests.support.engine_rig import Rig, World, kill_and_wait
from tests.support.set_state import set_state
from tests.support.sshd import Sshd
from tests.support.toy import WITHIN_S, acts_done

pytestmark = pytest.mark.scored(fault="held up, killed or cancelled around a step", point="the step's record")


def wait_for(true: Callable[[], bool], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def acts_of(run: str) -> list[str]:
    return [str(a.id) for a in store.find_runs([store.ACT_TAG, f"run:{run}"])]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reaper runs on another machine: it sees whether beats move, never a process. Steps may take minutes."""
    monkeypatch.setattr(tasks.this_machine, "machine_name", lambda: "other")
    monkeypatch.setattr(steps, "MARGIN_S", 300.0)


def declare_dead() -> list[str]:
    """What a reaper elsewhere does about a run whose beat stands still for two minutes."""
    now = utc_now()
    return [line for s in (0, 50, 100, 150, 165) for line in sweep(now + timedelta(seconds=s))]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("point", ["step-begins", "step-begun"])
def test_a_process_that_slept_through_its_own_funeral_does_not_act_besides_its_successor(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    w = rig.world()
    w.arm(point, "SIGSTOP")
    pid, id_file = w.start_run("auto")
    wait_for(lambda: struck(w.fault))
    try:
        lines = declare_dead()
        begun = point == "step-begun"
        assert any("kept locked" in line for line in lines if w.name in line) == begun, lines
        second = w.run("auto")
        assert store.read_run(second).labels["outcome"] == ("refused" if begun else "fixed")
    finally:
        os.kill(pid, signal.SIGCONT)
        rig.wait(pid)
    assert len(acts_done(rig.worlds, w.name)) == (0 if begun else 1)
    (act,) = acts_of(id_file.read_text())
    assert [s.begun for s in steps.read_steps(act)] == [False]  # revoked, or withdrawn by the process itself
    monkeypatch.undo()
    carry_on(w)
    check(w, 1)


def took(w: World) -> list[str]:
    path = w.rig.worlds / f"{w.name}.took"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(("ending", "takes_s"), [("killed", 10), ("cancelled", 2), ("completed", 2)])
def test_the_owner_stays_locked_while_a_step_may_be_at_work(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, ending: str, takes_s: int
) -> None:
    """Whatever ends the run or its act: killed, cancelled by hand, or set to Completed. Its machine gives no answer."""
    monkeypatch.setattr(node_over, "machines_of", lambda *_: ())
    notes.fault(f"{ending} by hand", f"in the middle of a step that takes {takes_s} s")
    w = rig.world(takes_s=takes_s)
    pid, id_file = w.start_run("auto")
    wait_for(lambda: took(w) == ["begin"])
    (act,) = acts_of(id_file.read_text())
    if ending == "killed":
        kill_and_wait(pid)
        sweep()
    else:
        set_state(act, Cancelled() if ending == "cancelled" else Completed())
    step = Step(kind="toy-fix", owner=w.name, args={}, commands=(), effect="")
    other = Plan(name="other", steps=(step,), for_causes=("c",))
    with pytest.raises(ActionRefused):
        lock_all(other, {"runbook_run": "test", "target": "-"})
    wait_for(lambda: took(w) == ["begin", "end"])
    (act_step,) = steps.read_steps(act)
    assert (utc_now() - act_step.begun_at).total_seconds() >= takes_s, "it was at work all the time"
    rig.wait(pid)
    if ending == "killed":  # nobody saw its end: the step's time has to pass
        with pytest.raises(ActionRefused, match="may run until"):
            lock_all(other, {"runbook_run": "test", "target": "-"})
        assert steps.unfinished(store.read_run(act), utc_now() + timedelta(seconds=WITHIN_S))
        assert sweep() == []  # the reaper waits as well
        monkeypatch.setattr(steps, "START_S", 0.0)
        monkeypatch.setattr(steps, "MARGIN_S", 0.0)
        wait_for(lambda: any("started (outcome not seen)" in line for line in sweep()))
    release(lock_all(other, {"runbook_run": "test", "target": "-"}), "only a test")
    carry_on(w)
    check(w, 1)


def test_a_step_frees_its_owner_early_when_its_machine_says_that_it_is_over(rig: Rig) -> None:
    w = rig.world(takes_s=1)
    pid, id_file = w.start_run("auto")
    wait_for(lambda: took(w) == ["begin"])
    kill_and_wait(pid)
    rig.wait(pid)
    (act,) = acts_of(id_file.read_text())
    assert steps.unfinished(store.read_run(act), utc_now())
    wait_for(lambda: took(w) == ["begin", "end"])
    steps.over(act, 0, "a test that saw it end")
    assert not steps.unfinished(store.read_run(act), utc_now())
    carry_on(w)
    check(w, 1)


@pytest.mark.parametrize("way", [pytest.param("here", marks=pytest.mark.soak), "over ssh"])
def test_the_machine_is_asked_whether_a_killed_runs_command_still_works(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The engine's process is gone, its command goes on: the next run is refused until that has ended, then it goes on."""
    monkeypatch.setattr(node_over, "AGAIN_S", 0.0)
    w = rig.world(takes_s=4)
    with Sshd(tmp_path, w.name) if way == "over ssh" else nullcontext() as sshd:
        if sshd:
            w.fleet.write_text(yaml.safe_dump({"name": f"f-{w.name}", "nodes": [sshd.node().model_dump(mode="json")]}))
        pid, id_file = w.start_run("auto")
        wait_for(lambda: took(w) == ["begin"])
        kill_and_wait(pid)
        rig.wait(pid)
        (act,) = acts_of(id_file.read_text())
        lines = [line for line in sweep() if "kept locked" in line]
        assert f"another action of run {act} is still working here" in lines[0]
        assert took(w) == ["begin"]
        refused = w.run("auto")
        assert store.read_run(refused).labels["outcome"] == "refused"
        wait_for(lambda: took(w) == ["begin", "end"])
        wait_for(lambda: any("started (outcome not seen)" in line for line in sweep()))
        assert [s.over for s in steps.read_steps(act)] == [w.name]
        again = w.run("auto")
        assert (
            store.read_run(again).labels["outcome"] == "waiting"
        )  # what nobody saw the end of is a person's to repeat
        assert answer_run(again, {"decision": "approve", "who": "ana"}) == ""
        w.work()
        assert store.read_run(again).labels["outcome"] == "fixed"
        assert took(w) == ["begin", "end"] * 2
        carry_on(w)
        check(w, 2)


@pytest.mark.soak
def test_a_command_that_was_lost_sight_of_locks_its_owner_while_it_works(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is cut in the middle of the command: the run ends, the command does not. The next run asks the machine."""
    w = rig.world(takes_s=16)
    with Sshd(tmp_path, w.name) as sshd:
        w.fleet.write_text(yaml.safe_dump({"name": f"f-{w.name}", "nodes": [sshd.node().model_dump(mode="json")]}))
        pid, id_file = w.start_run("auto")
        wait_for(lambda: took(w) == ["begin"])
        sshd.cut()
        rig.wait(pid)
        (act,) = acts_of(id_file.read_text())
        assert [s.ended for s in steps.read_steps(act)] == [steps.RUNS_ON]
        assert store.read_run(act).state_type is StateType.FAILED
        monkeypatch.setattr(node_over, "AGAIN_S", 0.0)
        monkeypatch.setattr(node_over, "SHARE", 0)  # asked again at once, however slow the first answer was
        assert "may run until" in going_on(store.read_run(act), utc_now())
        assert took(w) == ["begin"], "it was seen at work"
        wait_for(lambda: took(w) == ["begin", "end"])
        assert going_on(store.read_run(act), utc_now()) == ""
        assert [s.over for s in steps.read_steps(act)] == [w.name]
        assert store.read_run(w.run("auto")).labels["outcome"] == "waiting"
        carry_on(w)
        check(w, 1)


def test_a_plan_of_thousands_of_commands_can_be_claimed(rig: Rig) -> None:
    """The server takes 512 KiB of parameters: of more, what tells the steps apart is recorded."""
    keys = [f"/torch/elastic/store/{n:06d}" for n in range(10_000)]
    args = {"rendezvous": "main", "keys": keys}
    step = Step(
        kind="toy-fix", owner="etcd:large", args=args, commands=tuple(f"curl -X DELETE {k}" for k in keys), effect=""
    )
    locks = lock_all(Plan(name="p", steps=(step,), for_causes=("c",)), {"runbook_run": "test"})
    (recorded,) = store.read_run(locks[0].act_run).parameters["steps"]
    release(locks, "only a test")
    assert locks[0].steps == (step,)
    assert recorded["args"] == {"rendezvous": "main"}
    assert "10000 commands" in recorded["commands"][0]


def claimed(name: str, steps_of_it: int = 2) -> str:
    """An act run of two steps that this process holds."""
    step = Step(kind="toy-fix", owner=name, args={}, commands=(), effect="")
    (lock,) = lock_all(Plan(name="p", steps=(step,) * steps_of_it, for_causes=("c",)), {"runbook_run": "test"})
    return lock.act_run


def test_each_step_is_given_to_one_asker(rig: Rig) -> None:
    act = claimed(f"steps-{os.getpid()}-a")
    steps.begin(act, 0, "mine", "toy-fix", 5)
    with pytest.raises(ActionRefused, match="another process started it"):
        steps.begin(act, 0, "theirs", "toy-fix", 5)
    run = store.read_run(act)
    steps.revoke(run, "a test says so")  # step 0 is begun: the next one is what nobody gets
    steps.revoke(run, "again")
    with pytest.raises(ActionRefused, match="a test says so"):
        steps.begin(act, 1, "mine", "toy-fix", 5)
    found = steps.read_steps(act)
    assert [(s.begun, bool(s.revoked)) for s in found] == [(True, False), (False, True)]
    assert found[0].until - found[0].begun_at == timedelta(seconds=5 + steps.START_S + steps.MARGIN_S)
    set_state(act, Cancelled())


def test_a_step_held_up_after_it_was_given_is_not_begun(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    act = claimed(f"steps-{os.getpid()}-b")
    begun = steps.begin(act, 0, "mine", "toy-fix", 5)
    begun.check()
    late = time.time() + steps.START_S + 1
    monkeypatch.setattr(time, "time", lambda: late)
    with pytest.raises(ActionRefused, match="held up"):
        begun.check()
    set_state(act, Cancelled())


def test_machines_without_an_answer_do_not_hold_up_the_reaper(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rack lost its power in the middle of many acts: one round asks so many as it has time for, the next goes on."""
    asked: list[str] = []

    def no_answer(run: FlowRun, *_: object) -> str:
        asked.append(run.name)
        return "no answer"

    monkeypatch.setattr(node_over, "_ask", no_answer)
    runs = [store.read_run(claimed(f"dark-{n}", 1)) for n in range(3)]
    for run in runs:
        steps.begin(str(run.id), 0, "token", "toy-fix", 300)
    now = utc_now()
    monkeypatch.setattr(node_over, "ROUND_S", -1.0)
    assert [node_over.ask_machines(r, now) for r in runs] == [""] * 3
    monkeypatch.setattr(node_over, "ROUND_S", 0.0)
    assert [node_over.ask_machines(r, now) for r in runs] == ["no answer", "", ""]
    assert [node_over.ask_machines(r, now + timedelta(seconds=10)) for r in runs] == ["", "no answer", ""]
    monkeypatch.setattr(node_over, "ROUND_S", 60.0)
    assert [node_over.ask_machines(r, now + timedelta(seconds=12)) for r in runs] == ["", "", "no answer"]
    assert asked == [r.name for r in runs]
    for run in runs:
        steps.record(str(run.id), 0, "done")
        set_state(run.id, Cancelled())
