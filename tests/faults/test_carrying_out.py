"""How a plan that was allowed is carried out: what may have changed meanwhile, who else may be at it, what is said of it."""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Cancelling, Scheduled

from deployments.cli import freeze as switches
from deployments.cli.freeze import cmd_freeze, cmd_unfreeze
from flows import store
from flows.engine import carry_out, execution, steps
from flows.engine.actions import ACTIONS, UNKNOWN_S
from flows.engine.approval import answer_run
from flows.engine.carry_out import PlanRun
from flows.engine.in_progress import in_progress
from flows.engine.lock import Lock
from flows.engine.lock_key import LockKey
from flows.engine.steps import read_steps
from runbooks.core.fleet import Fleet, Node
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Step
from runbooks.core.report import ActionRecord
from tasks.container import act_restart
from tasks.context import ActionRefused, Context, utc_now
from tasks.remote.changing import GRACE_S
from tasks.transport.base import CommandResult
from tasks.transport.local import LocalHost
from tests.faults.fault import struck
from tests.faults.test_faults import carry_on, check
from tests.faults.test_steps import acts_of, took, wait_for
from tests.support.engine_rig import Rig, World
from tests.support.set_state import set_state
from tests.support.toy import acts_done, read_world, write_world

pytestmark = pytest.mark.scored(fault="changed, frozen, failed or executed twice meanwhile", point="between decision and action")


def outcome(run: str) -> str:
    return str(store.read_run(run).labels.get("outcome"))


def the_act(run: str) -> Any:
    (act,) = acts_of(run)
    return store.read_run(act)


def change(w: World, **facts: object) -> None:
    write_world(w.rig.worlds, w.name, **(read_world(w.name) | facts))


def held(w: World, point: str, mode: str = "auto", **more: Any) -> tuple[int, Path]:
    """A run that stands still at that point."""
    w.arm(point, "SIGSTOP")
    pid, id_file = w.start_run(mode, **more)
    wait_for(lambda: struck(w.fault))
    return pid, id_file


def go_on(w: World, pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
    w.rig.wait(pid)


# --- what is said of a plan that was done in part ---


def test_a_plan_of_which_a_step_failed_is_not_fixed_though_the_fault_is_gone(rig: Rig) -> None:
    w = rig.world(restart_fails=True)
    run = w.run("auto", choice="clean up and restart")
    assert outcome(run) == Outcome.PARTLY_FIXED
    assert Outcome.PARTLY_FIXED.exit_code == 1
    state = store.read_run(run).state
    assert state is not None
    assert (state.name, state.is_failed()) == ("Partly fixed", True)
    report = w.reports()[-1]
    assert "step 2 (toy-restart): failed" in report["headline"]
    assert [a["steps"] for a in report["acts"]] == [["done"], ["failed"]]
    noted = {a.parameters["owner"]: a.labels["verified"] for a in map(store.read_run, acts_of(run))}
    assert noted == {w.name: "fixed", f"leader of {w.name}": "not-fixed"}
    change(w, sick=True, restart_fails=False)  # the same again: nothing is retried by itself
    assert outcome(w.run("auto", choice="clean up and restart")) == "waiting"


def test_steps_go_in_the_order_of_the_plan_whoever_owns_them(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def do(lock: Lock, *_: object, before: Callable[[int], bool], allowed: Callable[[], None]) -> ActionRecord:
        ends = []
        for i, step in enumerate(lock.steps):
            if not before(i):
                break
            done.append(step.kind)
            ends.append("failed" if step.kind == fails else "done")
        whole = ends == ["done"] * len(lock.steps)
        return ActionRecord(
            owner=lock.owner, kinds=(), act_run="", digest="", outcome="done" if whole else "failed", steps=tuple(ends)
        )

    monkeypatch.setattr(carry_out, "do_locked_steps", do)
    owners = [("a", "node"), ("b", "leader"), ("c", "node"), ("d", "other")]
    plan_steps = tuple(Step(kind=k, owner=o, args={}, commands=(), effect="") for k, o in owners)
    plan = Plan(name="p", steps=plan_steps, for_causes=("c",))
    locks = tuple(
        Lock(owner=o, act_run="", token="", steps=tuple(s for s in plan_steps if s.owner == o), place=LockKey(owner=o))
        for o in plan.owners
    )

    class Nothing:
        """Stands for the run."""

        context = run_id = execution = record = timeline = None

    Nothing.record = Nothing  # type: ignore[assignment]
    fails = ""
    assert PlanRun(Nothing, plan, locks).up_to(4)  # type: ignore[arg-type]
    assert done == ["a", "b", "c", "d"]
    done.clear()
    fails = "b"
    assert not PlanRun(Nothing, plan, locks).up_to(4)  # type: ignore[arg-type]
    assert done == ["a", "b"]


def test_a_plan_may_go_to_another_owner_and_back(rig: Rig) -> None:
    w = rig.world(to_and_fro=True)
    run = w.run("auto", choice="clean up and restart")
    assert outcome(run) == "fixed", w.reports()[-1]["acts"]
    leader = f"leader of {w.name}"
    assert [line.partition(" pid ")[0] for line in acts_done(rig.worlds, w.name)][1:] == [f"restart {leader}", f"restart {w.name}"]
    assert [a["steps"] for a in w.reports()[-1]["acts"]] == [["done", "done"], ["done"]]
    check(w, 1)


# --- who else may be at it ---


@pytest.mark.scored(fault="one approved run in two processes", point="after the approval")
def test_an_approved_run_that_two_processes_execute_acts_once(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    w.arm("decided", "SIGSTOP")
    first = rig.start_work(w.fleet, FAULT=str(w.fault))
    wait_for(lambda: struck(w.fault))
    try:
        set_state(run, Scheduled(message="handed to a second worker"))  # the first was slow to start
        w.work()
        assert outcome(run) == "fixed"
        change(w, sick=True)  # and ill again, so that the first would find its plan unchanged
    finally:
        go_on(w, first)
    assert len(acts_done(rig.worlds, w.name)) == 1
    carry_on(w)
    check(w, 1)


def test_an_execution_that_is_not_the_newest_may_not_act(rig: Rig) -> None:
    run = rig.world().run("diagnose")
    assert [execution.number(run) for _ in range(2)] == [2, 3]  # the run itself was the first
    execution.check_newest(run, 3)
    with pytest.raises(ActionRefused, match="execution 3"):
        execution.check_newest(run, 2)


# --- what may have changed meanwhile ---


def opt_out(w: World) -> None:
    w.fleet.write_text(
        f"name: f-{w.name}\nnodes: [{{name: {w.name}, local: true, hands_off: true, reason: mine}}]\n", encoding="utf-8"
    )


def only_diagnose(w: World) -> None:
    Path(w.parameters("auto")["policy"]).with_name(f"{w.name}-policy.yaml").write_text("mode: diagnose\n", encoding="utf-8")


def less_sure(w: World) -> None:
    change(w, sure=False)


@pytest.mark.parametrize(
    ("meanwhile", "point", "says"),
    [
        (opt_out, "claimed", "hands off"),
        (only_diagnose, "claimed", "allows only diagnosis"),
        (less_sure, "claimed", "needs a confirmed cause"),
        (opt_out, "acting", "hands off"),
        (only_diagnose, "acting", "allows only diagnosis"),
    ],
)
def test_what_was_written_meanwhile_counts_before_anything_is_changed(
    rig: Rig, meanwhile: Callable[[World], None], point: str, says: str
) -> None:
    w = rig.world()
    policy = rig.policy.with_name(f"{w.name}-policy.yaml")
    policy.write_text(rig.policy.read_text(encoding="utf-8"), encoding="utf-8")
    pid, id_file = held(w, point, policy=str(policy))
    meanwhile(w)
    go_on(w, pid)
    assert acts_done(rig.worlds, w.name) == []
    report = w.reports()[-1]
    assert report["outcome"] == "refused"
    assert says in json.dumps(report), report["guards"]
    assert outcome(id_file.read_text()) == "refused"


def freeze(_run: str) -> None:
    store.set_variable("gpu_runbooks_freeze", {"at": "now", "why": "a test"})


def cancel(run: str) -> None:
    set_state(run, Cancelling(), force=False)


@pytest.mark.parametrize("meanwhile", [freeze, cancel])
def test_what_comes_while_a_step_waits_to_begin_stops_it(rig: Rig, meanwhile: Callable[[str], None]) -> None:
    w = rig.world(waits_s=60)
    pid, id_file = w.start_run("auto")
    wait_for(lambda: id_file.exists() and any(the.state.is_running() for the in acts(id_file.read_text())))
    began = time.monotonic()
    meanwhile(id_file.read_text())
    try:
        rig.wait(pid)
    finally:
        store.delete_variable("gpu_runbooks_freeze")
    assert time.monotonic() - began < 30
    assert acts_done(rig.worlds, w.name) == []
    assert outcome(id_file.read_text()) == ("refused" if meanwhile is freeze else "cancelled")


def acts(run: str) -> list[Any]:
    return store.find_runs([store.ACT_TAG, f"run:{run}"])


def test_a_recreation_waits_before_its_step_begins() -> None:
    assert ACTIONS["recreate-container"].wait_s is not None


def test_every_kind_says_after_how_long_nothing_of_it_runs_any_more() -> None:
    assert [kind for kind, action in ACTIONS.items() if action.within_s == UNKNOWN_S] == []


@pytest.mark.parametrize("window_s", [6.0, 90.0])
def test_a_restart_keeps_its_lock_for_all_its_time_outs(monkeypatch: pytest.MonkeyPatch, window_s: float) -> None:
    """Everything that it asks is answered at the last moment: then its command may work for so long after the step began."""
    spent: list[float] = []

    def late(*_: Any, timeout_s: float = 20) -> CommandResult:
        spent.append(timeout_s)
        state = [{"Id": "a" * 64, "State": {"Running": True, "StartedAt": str(len(spent)), "Status": "running"}}]
        return CommandResult(command="", exit=0, out="b" if len(spent) == 1 else json.dumps(state), err="", seconds=0.0)

    def watched(*_: Any, timeout_s: float) -> dict[str, Any]:
        spent.append(timeout_s)
        return {"seen": 1, "at_work": []}

    monkeypatch.setattr(act_restart, "_run", late)
    monkeypatch.setattr(act_restart, "run_probe", watched)
    monkeypatch.setattr(act_restart, "command", lambda _c, _h, _a, timeout_s: late(timeout_s=timeout_s + GRACE_S))
    args = {"container": "a" * 64, "boot_id": "b"}
    step = Step(kind="restart-container", owner="n", args=args, commands=(), effect="")
    fleet = Fleet(name="f", nodes=(Node(name="n", local=True),))
    context = Context(fleet, "n", lambda _: LocalHost("n"), limits={"window_s": window_s})
    ACTIONS["restart-container"].do(step, context)
    assert len(spent) == 6
    assert sum(spent) <= ACTIONS["restart-container"].deadline_s(step, context)


def test_freeze_says_what_is_still_in_progress_and_can_wait_for_it(
    rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "ensure_server", lambda **_: None)  # the rig's server is up; it wants no worker of its own
    w = rig.world(takes_s=5)
    pid, _ = w.start_run("auto")
    wait_for(lambda: took(w) == ["begin"])
    try:
        assert cmd_freeze(argparse.Namespace(why="a test", wait=False, json=True)) == 0
        (step,) = [s for s in json.loads(capsys.readouterr().out)["in_progress"] if s["owner"] == w.name]
        assert (step["kind"], step["step"]) == ("toy-fix", 1)
        assert any(s.owner == w.name for s in in_progress(utc_now()))
        assert cmd_freeze(argparse.Namespace(why="a test", wait=True, json=False)) == 0
        assert took(w) == ["begin", "end"]
        assert "no action is running" in capsys.readouterr().out
    finally:
        cmd_unfreeze(argparse.Namespace(json=True))
        rig.wait(pid)
    check(w, 1)


# --- when the server does not answer ---


def test_a_change_that_was_made_is_done_though_the_server_was_away_right_after_it(rig: Rig) -> None:
    w = rig.world(outage_s=2)
    run = w.run("auto", choice="clean up and restart")
    assert outcome(run) == "fixed", w.reports()[-1]["acts"]
    assert [line.split()[0] for line in acts_done(rig.worlds, w.name)] == ["fix", "restart"]
    for act in acts_of(run):
        assert [(s.ended, s.open_at(utc_now())) for s in read_steps(act)] == [("done", False)]


def test_a_record_that_could_not_be_written_in_time_is_written_later(rig: Rig) -> None:
    w = rig.world(outage_s=3, record_s=0.3)
    run = w.run("auto")
    said = "".join(a["said"][-1] for a in w.reports()[-1]["acts"])
    assert outcome(run) == "fixed", said
    (act,) = acts_of(run)
    steps.deliver(act)  # as whoever locks the owner next does: the run itself may have ended while the server was away
    assert [s.ended for s in read_steps(act)] == ["done"]
    assert steps.unfinished(store.read_run(act), utc_now() + timedelta(seconds=1)) == ""
    check(w, 1)


@pytest.mark.scored(fault="approved twice, the first answer not heard", point="the question")
def test_an_answer_that_was_taken_but_not_heard_is_taken(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    w = rig.world()
    run = w.run("approve")
    real, heard = SyncPrefectClient.resume_flow_run, []

    def deaf(client: SyncPrefectClient, flow_run_id: UUID, run_input: dict[str, Any] | None = None) -> Any:
        result = real(client, flow_run_id, run_input=run_input)
        heard.append(result.status.value)
        if len(heard) == 1:
            raise httpx.ReadError("the connection was cut")
        return result

    monkeypatch.setattr(SyncPrefectClient, "resume_flow_run", deaf)
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    assert heard == ["ACCEPT", "ABORT"]
    assert "not paused" in answer_run(run, {"decision": "approve", "who": "bob"})  # another one came too late
    monkeypatch.undo()
    w.work()
    assert outcome(run) == "fixed"
    assert len(acts_done(rig.worlds, w.name)) == 1
