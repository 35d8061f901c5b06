"""Records of the engine on a real server: one for a key whoever asks, no deployment, no Retry. Those of the version before, which
have a deployment, bar and count, and their deployments go when nothing of that version is at work."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled, Completed, Failed, Running, Suspended

from deployments import old_records
from deployments.errors import CommandError
from deployments.processes import stop
from deployments.registered import register_if_changed
from deployments.state import Proc
from flows import records, store
from flows.clock import server_now
from flows.engine import guards, lock
from flows.engine.guards import take_budget_token
from flows.engine.lock import history_of, lock_all, used_by
from flows.engine.lock_key import LockKey
from flows.engine.steps import SETTLED
from flows.engine.used_codes import first_use
from flows.reaper import sweep
from runbooks.core.fleet import Fleet, Node
from runbooks.core.policy import Budget, Policy
from tasks.context import ActionRefused
from tasks.this_machine import start_ticks, this_process
from tests.faults.test_states import SOON, by_hand, dead_process, free, plan_on
from tests.support.engine_rig import Rig
from tests.support.old_records import as_before, create_old, old_deployments, races
from tests.support.set_state import set_state

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.scored(fault="a record of the version before, or two who ask at once", point="every record"),
]
Make = Callable[..., FlowRun]


@pytest.fixture
def before(rig: Rig) -> Iterator[None]:
    """The server has the deployments that the version before registered."""
    old_deployments()
    yield
    for d in old_records.old_deployments():
        store.ask(lambda c, d=d: c.delete_deployment(d.id))  # type: ignore[misc]


def a_record(state: State[Any], make: Make = records.create_record, **more: Any) -> FlowRun:
    key = f"r-{uuid4().hex[:8]}"
    asked = {"flow": records.ACT, "parameters": {"n": 1}, "state": state, "key": key, "name": key, "tags": [], "labels": {}}
    return store.read_run(make(**(asked | more)).id)


def retry(run: FlowRun) -> str:
    """What the server says to the UI's Retry, and the state after it."""
    asked: State[Any] = AwaitingRetry()
    said = store.ask(lambda c: c.set_flow_run_state(run.id, asked, force=False))
    return f"{said.status.value}: {store.read_run(run.id).state_name}"


@pytest.mark.parametrize("forms", [("new", "new"), ("old", "new")])
def test_racers_are_given_one_and_the_same_record(before: None, forms: tuple[str, ...]) -> None:
    assert races(forms, 50).total() == 50


def test_the_server_refuses_to_retry_a_record_that_has_ended(before: None) -> None:
    every: tuple[State[Any], ...] = (Completed(), Failed(), Cancelled())
    for ended in every:
        new, old = a_record(ended), a_record(ended, create_old)
        assert (new.deployment_id, new.work_pool_name) == (None, None)
        assert retry(new) == f"ABORT: {ended.name}"
        assert retry(old) == "ACCEPT: AwaitingRetry"  # why records have no deployment any more
        assert new.expected_start_time is not None  # budget and history are read by it


def test_the_server_refuses_to_suspend_a_record(rig: Rig) -> None:
    run = a_record(Running())
    asked: State[Any] = Suspended(timeout_seconds=60)
    said = store.ask(lambda c: c.set_flow_run_state(run.id, asked, force=False))
    assert (said.status.value, store.read_run(run.id).state_name) == ("ABORT", "Running")
    set_state(run.id, Completed())


def test_a_key_counts_once_in_its_flow_and_again_when_its_record_was_deleted(rig: Rig) -> None:
    first = a_record(Completed())
    assert a_record(Failed(), key=first.name).id == first.id
    assert store.read_run(first.id).state_name == "Completed"
    assert a_record(Completed(), key=first.name, flow=records.BUDGET).id != first.id
    store.ask(lambda c: c.delete_flow_run(first.id))
    assert a_record(Completed(), key=first.name).id != first.id


def test_where_the_flow_was_deleted_nothing_is_claimed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records went with it, so it is not made anew by the next who asks."""
    monkeypatch.setattr(records, "ACT", f"gone-{uuid4().hex[:6]}")
    for _ in range(2):
        with pytest.raises(ObjectNotFound, match="up"):
            lock_all(plan_on("o"), {"runbook_run": "test"})


def an_act(owner: str, process: Any = None, state: State[Any] | None = None, run: str = "test") -> str:
    """An action that `process` claimed; returns the id of its run."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(lock, "this_process", lambda: process or this_process())
        [held] = lock_all(plan_on(owner), {"runbook_run": run, "target": owner})
    if state:
        set_state(held.act_run, state)
    return held.act_run


def an_old_act(owner: str, *args: Any, **more: Any) -> str:
    with as_before():
        made = an_act(owner, *args, **more)
    assert store.read_run(made).deployment_id is not None
    return made


def name() -> str:
    return f"o{uuid4().hex[:8]}"


def test_an_action_of_the_version_before_bars_in_every_open_state(before: None) -> None:
    for state in StateType:
        owner = name()
        run = an_old_act(owner, state=by_hand(state))
        assert free(owner) is by_hand(state).is_final(), state
        with as_before():
            assert free(owner) is False, "and what was claimed since bars that version, too"
        if not by_hand(state).is_final():
            set_state(run, Cancelled())


def test_an_action_of_the_version_before_counts(before: None) -> None:
    owner, run = name(), uuid4().hex
    act = an_old_act(owner, run=run)
    set_state(act, Running())
    store.label(act, {"step.0": "toy-fix: done", SETTLED: "yes"})
    set_state(act, Completed())
    [past] = history_of((LockKey(owner=owner),), "f")
    assert past.kinds == ("toy-fix",)
    assert used_by(run, store.read_run(act).parameters["digest"])
    assert store.read_run(an_act(owner)).parameters["n"] == 2


FLEET = Fleet(name="f", nodes=tuple(Node(name=f"n{i}", host=f"h{i}") for i in range(5)))


def budget(fleet: Fleet, target: str) -> str:
    return take_budget_token(fleet, Policy(budget=Budget(nodes=2, window_s=3600)), target, uuid4().hex)


def test_places_and_codes_of_the_version_before_count(before: None) -> None:
    fleet, who = FLEET.model_copy(update={"name": name()}), name()
    with as_before():
        assert budget(fleet, "n0") == "budget: place 1 of 2 in 3600 s"
        assert first_use(who, 7, "q1") == "q1"
    assert "already counted" in budget(fleet, "n0")
    assert budget(fleet, "n1") == "budget: place 2 of 2 in 3600 s"
    assert first_use(who, 7, "q2") == "q1"
    with as_before(), pytest.raises(ActionRefused, match="used up"):
        budget(fleet, "n2")


def test_deployments_of_the_version_before_go_when_its_actions_have_ended(before: None) -> None:
    fleet, who, dead, owner = FLEET.model_copy(update={"name": name()}), name(), name(), name()
    with as_before():
        budget(fleet, "n0")
        first_use(who, 7, "q1")
    for run in (*store.find_runs([guards.BUDGET_TAG, f"fleet:{fleet.name}"]), *store.find_runs(["approver-code"])):
        if run.deployment_id:
            assert retry(run) == "ACCEPT: AwaitingRetry"  # a click that the version before could not refuse
    retried = an_old_act(owner, state=Completed())
    retry(store.read_run(retried))
    killed = an_old_act(dead, dead_process())
    keeps = {store.read_run(r).name for r in (retried, killed)}
    assert set(old_records.retire()) >= keeps
    assert len(old_records.old_deployments()) == len(records.FLOWS)
    sweep(server_now() + SOON)
    assert old_records.retire() == ()
    assert old_records.old_deployments() == []
    assert [store.read_run(r).state_type for r in (retried, killed)] == [StateType.CANCELLED] * 2
    assert free(dead)
    assert store.read_run(an_act(owner)).parameters["n"] == 2
    assert "already counted" in budget(fleet, "n0")
    assert first_use(who, 7, "q2") == "q1"


def test_a_retried_place_that_cannot_be_ended_keeps_its_deployment(before: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = FLEET.model_copy(update={"name": name()})
    with as_before():
        budget(fleet, "n0")
    [place] = store.find_runs([guards.BUDGET_TAG, f"fleet:{fleet.name}"])
    retry(place)
    monkeypatch.setattr(old_records, "change", lambda *_: False)
    assert old_records.retire() == (place.name,)
    assert len(old_records.old_deployments()) == len(records.FLOWS)
    assert "already counted" in budget(fleet, "n0")


def test_up_waits_for_the_version_before(rig: Rig, monkeypatch: pytest.MonkeyPatch, before: None) -> None:
    """Its worker would find no place for its records in the middle of a run."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    worker = Proc(name="worker", pid=sleeper.pid, start_ticks=start_ticks(sleeper.pid) or 0)
    state = rig.state.model_copy(update={"processes": (*rig.state.processes, worker)})
    monkeypatch.setattr("deployments.registered.read_mark", lambda: {"code": "the version before"})
    try:
        with pytest.raises(CommandError, match=r"worker of the previous version .*`gpu-runbooks down`"):
            register_if_changed(state, None, None)
        assert len(old_records.old_deployments()) == len(records.FLOWS)
    finally:
        stop(worker)
        sleeper.wait(10)
    assert register_if_changed(state, None, None) > 0
    assert old_records.old_deployments() == []


def test_up_says_what_it_leaves_to_the_reaper(before: None, capsys: pytest.CaptureFixture[str]) -> None:
    act = an_old_act(name())
    old_records.retire_and_say()
    assert store.read_run(act).name in capsys.readouterr().err
    set_state(act, Cancelled())


def test_an_action_whose_deployment_was_deleted_by_hand_still_bars_and_ends(before: None) -> None:
    owner = name()
    act = an_old_act(owner, dead_process())
    for d in old_records.old_deployments():
        store.ask(lambda c, d=d: c.delete_deployment(d.id))  # type: ignore[misc]
    assert not free(owner)
    sweep(server_now() + SOON + timedelta(seconds=1))
    assert store.read_run(act).state_type is StateType.CANCELLED
    assert free(owner)
    with pytest.raises(ActionRefused, match="locked"):
        lock_all(plan_on(owner), {"runbook_run": "test"})
