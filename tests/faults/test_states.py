"""Every state, set by hand on real runs and actions, with a dead and with a living owner; and cancelling at any point."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Cancelling, Completed, Crashed, Paused, Pending, Running, Scheduled

from flows import reaper_runs, store
from flows.clock import server_now
from flows.engine import lock
from flows.engine.lock import history_of, lock_all
from flows.engine.lock_key import LockKey
from flows.engine.ownership import BEAT, SIGNED
from flows.engine.state_table import ENDING_LIMIT, LONGEST, QUEUED_LIMIT, TAKEN_LIMIT, RunKind
from flows.engine.steps import SETTLED
from flows.launch import create_pending, run_here
from flows.reaper import sweep
from runbooks.core.plan import Plan, Step
from runbooks.core.policy import KindPolicy, Policy
from tasks.context import ActionRefused
from tasks.this_machine import Owner, start_ticks, this_process
from tests.faults.fault import struck
from tests.faults.real import outcome
from tests.support.engine_rig import Rig, World
from tests.support.set_state import set_state
from tests.support.toy import acts_done

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.scored(fault="a state set by hand, or cancelled", point="every state"),
]

SOON = timedelta(seconds=200)
DEPLOYMENTS = {RunKind.RUNBOOK: "zombie-gpu", RunKind.SWEEP: "nightly"}


def dead_process() -> Owner:
    """A process of this machine that is gone."""
    p = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = this_process().model_copy(update={"pid": p.pid, "start_ticks": start_ticks(p.pid) or 0})
    p.communicate(b"\n")
    return owner


def by_hand(state: StateType) -> State[Any]:
    if state is StateType.SCHEDULED:
        return Scheduled()
    return Paused() if state is StateType.PAUSED else State(type=state)


def new_run(kind: RunKind, state: StateType | None, owner: Owner, begin: State[Any] | None = None) -> str:
    """A run put into that state by force, and signed by `owner`."""
    slug = DEPLOYMENTS[kind]
    target = f"s{uuid4().hex[:8]}"
    run = store.create_run(
        f"{slug}/{slug}",
        {"target": target, "mode": "diagnose"} if kind is RunKind.RUNBOOK else {"fleet": f"/{target}.yaml"},
        state=begin or Pending(),
        key=uuid4().hex,
        name=f"{slug} {target}",
        tags=[store.RUNBOOK_TAG, f"runbook:{slug}"],
        labels={},
    )
    if state is not None:
        set_state(run.id, by_hand(state))
    now = store.read_run(run.id).state
    signed = {SIGNED: str(now.id) if now else "", BEAT: server_now().isoformat()}
    store.label(run.id, owner.labels() | signed)
    return str(run.id)


def plan_on(owner: str) -> Plan:
    step = Step(kind="toy-fix", owner=owner, args={}, commands=(), effect="")
    return Plan(name="p", steps=(step,), for_causes=("c",))


def free(owner: str) -> bool:
    try:
        lock_all(plan_on(owner), {"runbook_run": "test"})
    except ActionRefused:
        return False
    return True


def new_act(state: StateType, owner: Owner, parent: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An action run that `owner` claimed, put into that state by force; the name of what it locks."""
    name = f"o{uuid4().hex[:8]}"
    with monkeypatch.context() as m:
        m.setattr(lock, "this_process", lambda: owner)
        [held] = lock_all(plan_on(name), {"runbook_run": parent, "target": name})
    set_state(held.act_run, by_hand(state))
    return name


def types(runs: dict[Any, str]) -> dict[Any, StateType | None]:
    return {cell: store.read_run(run).state_type for cell, run in runs.items()}


def test_every_state_of_a_run_whose_process_is_gone(rig: Rig) -> None:
    owner = dead_process()
    runs = {(kind, s): new_run(kind, s, owner) for kind in DEPLOYMENTS for s in StateType}
    sweep(server_now() + SOON)
    crashed = {StateType.RUNNING: StateType.CRASHED, StateType.PAUSED: StateType.CRASHED}
    moved = crashed | {StateType.CANCELLING: StateType.CANCELLED, StateType.PENDING: StateType.SCHEDULED}
    assert types(runs) == {(kind, s): moved.get(s, s) for kind, s in runs}
    looked = {cell: str(store.read_run(run).labels.get("looked.again", "")) for cell, run in runs.items()}
    broke_off = {StateType.RUNNING, StateType.PAUSED, StateType.CRASHED}
    again = {s for (kind, s), text in looked.items() if kind is RunKind.RUNBOOK and text and not text.startswith("no: ")}
    assert again == broke_off
    assert all(text.startswith("no: ") for (kind, s), text in looked.items() if kind is RunKind.SWEEP and s in broke_off)
    sweep(server_now() + TAKEN_LIMIT + SOON)  # and no worker took what was left
    assert all(store.read_run(run).state.is_final() for run in runs.values())  # type: ignore[union-attr]


def test_every_state_of_a_run_whose_process_lives(rig: Rig) -> None:
    runs = {(kind, s): new_run(kind, s, this_process()) for kind in DEPLOYMENTS for s in StateType}
    sweep(server_now() + SOON)
    assert types(runs) == {(kind, s): s for kind, s in runs}  # the living are left alone
    sweep(server_now() + ENDING_LIMIT + SOON)
    sweep(server_now() + QUEUED_LIMIT + SOON)
    now = types(runs)
    for kind in DEPLOYMENTS:
        assert now[kind, StateType.CANCELLING] is StateType.CANCELLED
        assert now[kind, StateType.PENDING] is StateType.SCHEDULED  # its process hangs: a worker takes it
        assert now[kind, StateType.RUNNING] is StateType.RUNNING


def test_a_run_that_takes_too_long_is_ended_and_its_target_looked_at_again(rig: Rig) -> None:
    running, asks = new_run(RunKind.RUNBOOK, StateType.RUNNING, this_process()), rig.world().run("approve")
    later = server_now() + LONGEST + SOON
    assert [line for line in sweep(later) if "running for more than" in line and store.read_run(running).name in line]
    assert store.read_run(running).state_type is StateType.CANCELLING  # its process may end it
    sweep(later)
    found = store.read_run(running)
    assert found.state_type is StateType.CANCELLED
    assert store.read_run(str(found.labels["looked.again"])).parameters["mode"] == "diagnose"
    assert outcome(asks) == "waiting"  # waiting for a person does not count


def test_every_state_of_an_action_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, parent = dead_process(), new_run(RunKind.RUNBOOK, StateType.RUNNING, this_process())
    gone = {s: new_act(s, dead, parent, monkeypatch) for s in StateType}
    lives = {s: new_act(s, this_process(), parent, monkeypatch) for s in StateType}
    open_states = {s for s in StateType if not by_hand(s).is_final()}
    assert {s for s, owner in (gone | lives).items() if not free(owner)} == open_states
    for _ in range(2):  # the server calls a planned run late when it likes: one that changed since it was listed is the next sweep's
        sweep(server_now() + SOON)
    assert [s for s, owner in gone.items() if not free(owner)] == []
    held = {s for s, owner in lives.items() if not free(owner)}
    assert held == open_states - {StateType.SCHEDULED}  # an action never runs twice
    set_state(parent, Completed())
    sweep(server_now() + SOON)
    assert [s for s, owner in lives.items() if not free(owner)] == []


def test_every_action_within_the_window_of_the_policy_counts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are allowed in it: `attempts` may be larger than what is read at once."""
    monkeypatch.setattr(lock, "NEWEST", 3)
    owner = f"o{uuid4().hex[:8]}"
    for _ in range(5):
        [held] = lock_all(plan_on(owner), {"runbook_run": "test"})
        set_state(held.act_run, Running())
        store.label(held.act_run, {"step.0": "toy-fix: done", SETTLED: "yes"})
        set_state(held.act_run, Completed())
    policy = Policy(kinds={"toy-fix": KindPolicy(window_s=7200)})
    assert policy.longest_window == timedelta(hours=2)
    assert len(history_of((LockKey(owner=owner),), "f", server_now() - policy.longest_window)) == 5
    assert len(history_of((LockKey(owner=owner),), "f")) == 3


def test_a_run_that_waited_for_days_and_then_crashed_is_looked_at(rig: Rig) -> None:
    planned: State[Any] = Scheduled(scheduled_time=server_now() - timedelta(hours=30))
    run = new_run(RunKind.RUNBOOK, None, dead_process(), planned)
    set_state(run, Running())
    set_state(run, Crashed(message="exit -9"))
    due = store.read_run(run).expected_start_time
    assert due is not None
    assert server_now() - due > timedelta(hours=29)
    sweep()
    assert str(store.read_run(run).labels["looked.again"])[:2] != "no"


def test_the_reaper_changes_no_run_that_ended_since_it_was_listed(rig: Rig) -> None:
    listed = []
    for state in (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.SCHEDULED):
        run = store.read_run(new_run(RunKind.RUNBOOK, state, dead_process()))
        set_state(run.id, Completed(name="Fixed"))
        listed.append(run)
    later = server_now() + TAKEN_LIMIT + SOON
    handlers: list[Callable[[FlowRun, Any], str]] = [reaper_runs.running, reaper_runs.pending]
    handlers += [reaper_runs.cancelling, reaper_runs.scheduled]
    assert [handle(run, later) for handle, run in zip(handlers, listed, strict=True)] == [""] * 4
    found = [store.read_run(run.id) for run in listed]
    assert [r.state.name for r in found if r.state] == ["Fixed"] * 4
    assert not any("looked.again" in r.labels for r in found)


def held_at(w: World, point: str, **more: Any) -> tuple[int, str]:
    """A run that is stopped at that point: pid and id."""
    w.arm(point, "SIGSTOP")
    pid, id_file = w.start_run("auto", **more)
    deadline = time.monotonic() + 30
    while not struck(w.fault) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert struck(w.fault)
    return pid, id_file.read_text()


def cancel_as_the_ui_does(run: str) -> None:
    set_state(run, Cancelling(name="Cancelling"), force=False)


@pytest.mark.parametrize(
    ("point", "acts"), [("gathered", 0), ("settled", 0), ("acting", 0), ("step-begun", 0), ("acted", 1), ("reported", 1)]
)
def test_a_run_in_our_process_that_is_cancelled_ends_at_its_next_safe_point(rig: Rig, point: str, acts: int) -> None:
    w = rig.world()
    policy = rig.home / "slow-to-settle.yaml"
    policy.write_text(rig.policy.read_text().replace("settle_s: 0.05", "settle_s: 90" if point == "settled" else "settle_s: 0"))
    pid, run = held_at(w, point, policy=str(policy))
    cancel_as_the_ui_does(run)
    os.kill(pid, signal.SIGCONT)
    began = time.monotonic()
    rig.wait(pid)
    assert time.monotonic() - began < 60  # the wait of 90 s was not sat out
    found = store.read_run(run)
    assert found.state_type is StateType.CANCELLED
    assert outcome(run) == ("fixed" if point == "reported" else "cancelled")
    assert len(acts_done(rig.worlds, w.name)) == acts
    report = w.reports()[-1]
    assert report["outcome"] == outcome(run)
    assert [a["outcome"] for a in report["acts"] if a["outcome"] == "done"] == ["done"] * acts
    sweep()
    again = str(store.read_run(run).labels["looked.again"])
    assert again.startswith("no: ") is not bool(acts)  # what was changed is looked at
    assert free(w.name)


def test_a_cancelled_run_that_a_worker_ends_by_a_signal_still_reports(rig: Rig) -> None:
    w = rig.world()
    pid, run = held_at(w, "gathered")
    cancel_as_the_ui_does(run)
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    assert store.read_run(run).state_type is StateType.CANCELLED
    assert [r["outcome"] for r in w.reports()] == ["cancelled"]
    assert acts_done(rig.worlds, w.name) == []


def test_a_run_that_is_cancelled_before_it_began(rig: Rig) -> None:
    from deployments.register import load

    w = rig.world()
    run = create_pending("zombie-gpu", w.parameters("diagnose"))
    cancel_as_the_ui_does(str(run.id))
    assert run_here(load("flows.runbooks.zombie_gpu"), run).is_cancelled()
    assert w.reports() == []


@pytest.mark.parametrize("ended", [Cancelled(message="the server's own time-out"), Crashed(message="declared dead")])
def test_a_run_that_others_ended_stays_as_they_ended_it(rig: Rig, ended: State[Any]) -> None:
    w = rig.world()
    pid, run = held_at(w, "reported")
    set_state(run, ended)
    os.kill(pid, signal.SIGCONT)
    rig.wait(pid)
    found = store.read_run(run).state
    assert found is not None
    assert (found.type, found.message) == (ended.type, ended.message)


def test_a_question_that_is_cancelled_is_over(rig: Rig) -> None:
    run = rig.world().run("approve")
    cancel_as_the_ui_does(run)
    assert store.read_run(run).state_type is StateType.CANCELLED
    sweep()
    assert outcome(run) == "cancelled"
