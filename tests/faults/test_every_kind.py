"""Every kind of action of the table under the engine's promises, with a stand-in for what it does: a new kind is in it at once."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prefect.states import Completed, Crashed, Running, Scheduled

from flows import records, store
from flows.engine import action_run, execution
from flows.engine.action_run import Session
from flows.engine.actions import ACTIONS
from flows.engine.approval import answer_run
from flows.engine.guards import FREEZE, reset_breaker, trip
from flows.engine.lock import Lock, lock_all
from flows.engine.progress import LISTENERS, Timeline
from flows.engine.steps import read_steps
from runbooks.core.fleet import Fleet, Node
from runbooks.core.plan import Plan, Step
from runbooks.core.refusal import RefusalCode
from tasks.approvers.secrets import new_secret, put_approver
from tasks.context import ActionRefused, ActionResult, Context, utc_now
from tasks.transport.local import LocalHost
from tests.faults.real import outcome
from tests.faults.test_faults import carry_on
from tests.scorecard import notes
from tests.support.engine_rig import Rig, World, fresh_budget
from tests.support.freezing import frozen
from tests.support.set_state import set_state
from tests.support.toy import acts_done, read_world, step_of, write_world

EVERY = tuple(sorted(kind for kind in ACTIONS if not kind.startswith("toy-")))
ONCE = [f"{kind} held" for kind in EVERY]  # each did its work once, and its owner's lock was held meanwhile

pytestmark = pytest.mark.scored(fault="not allowed, or not any more", point="between the question and the action")


def everything(rig: Rig) -> World:
    return rig.world(kinds=EVERY)


def approve(run: str) -> str:
    return answer_run(run, {"decision": "approve", "who": "ana"})


# --- one run whose plan has a step of every kind ---


@pytest.mark.scored(fault="approved twice, and begun once more", point="the question")
def test_each_once_by_one_approval_with_its_lock_held(rig: Rig) -> None:
    """Not before it, and not again by a second approval or when the run is begun once more; the fault is there all the time."""
    w = everything(rig)
    run = w.run("approve")
    assert (outcome(run), acts_done(rig.worlds, w.name)) == ("waiting", [])
    assert approve(run) == ""
    w.work()
    assert acts_done(rig.worlds, w.name) == ONCE
    assert outcome(run) == "not-fixed"
    assert "not paused" in approve(run)
    set_state(run, Scheduled(name="AwaitingRetry"))
    carry_on(w)
    assert acts_done(rig.worlds, w.name) == ONCE


def changed(w: World) -> None:
    """The target is another."""
    write_world(w.rig.worlds, w.name, **(read_world(w.name) | {"identity": "another"}))


def healed(w: World) -> None:
    """The fault is gone by itself."""
    write_world(w.rig.worlds, w.name, **(read_world(w.name) | {"sick": False}))


def broken(w: World) -> None:
    """The breaker of its fleet is tripped."""
    trip(f"f-{w.name}", "a test", utc_now())


def budget_used_up(w: World) -> None:
    """The one place goes to another node of its fleet, by an automatic run."""
    fresh_budget(f"f-{w.name}")
    other = w.rig.world()
    w.fleet.write_text(w.fleet.read_text().replace("]", f", {{name: {other.name}, local: true}}]"))
    assert outcome(other.run("auto", fleet=str(w.fleet), policy=str(w.rig.home / "one.yaml"))) == "fixed"


AFTER: dict[Callable[[World], None] | None, str] = {
    changed: "the plan changed",
    healed: "the world healed",
    broken: "the breaker tripped",
    budget_used_up: "the budget was used up",
    None: "a freeze came",
}


@pytest.mark.parametrize(
    ("meanwhile", "ends"),
    [(changed, "waiting"), (healed, "healthy"), (broken, "refused"), (budget_used_up, "refused"), (None, "waiting")],
)
def test_none_of_an_approved_plan_after_a_change(rig: Rig, meanwhile: Callable[[World], None] | None, ends: str) -> None:
    """Of the target, the breaker or the budget after the approval; None: of the freeze, before it is taken up."""
    notes.fault(f"{AFTER[meanwhile]} after the approval", "before it is taken up")
    w = everything(rig)
    policy = rig.home / "one.yaml"
    policy.write_text(rig.policy.read_text().replace("nodes: 100", "nodes: 1"))
    run = w.run("approve", policy=str(policy))
    assert approve(run) == ""
    if meanwhile:
        meanwhile(w)
        w.work()
    else:
        with frozen():
            w.work()
    assert acts_done(rig.worlds, w.name) == []
    assert outcome(run) == ends


@pytest.mark.scored(fault="approved too late", point="the question")
def test_none_of_a_plan_that_is_approved_too_late(rig: Rig) -> None:
    w = everything(rig)
    policy = rig.home / "soon-over.yaml"
    policy.write_text(yaml.safe_dump(yaml.safe_load(rig.policy.read_text()) | {"kinds": {k: {"approval_ttl_s": 0.1} for k in EVERY}}))
    run = w.run("approve", policy=str(policy))
    assert approve(run) == ""
    w.work()
    assert acts_done(rig.worlds, w.name) == []
    assert outcome(run) == "expired"


def without_a_code(run: str) -> None:
    assert approve(run) == ""


def with_a_code_made_up(run: str) -> None:
    assert answer_run(run, {"decision": "approve", "who": "ana", "code": "000000"}) == ""


def with_a_link_made_up(run: str) -> None:
    assert answer_run(run, {"decision": "approve", "who": "ana", "code": "link:AAAA:000000"}) == ""


def into_the_record(run: str) -> None:
    """By somebody who reaches the server: the answer's row, and the run handed to a worker."""
    state = store.read_run(run).state
    assert state is not None
    assert state.state_details.run_input_keyset is not None
    store.store_input_once(run, state.state_details.run_input_keyset["response"], json.dumps({"decision": "approve", "who": "ana"}))
    set_state(run, Scheduled(name="Resuming"))


MORE = [pytest.param(forge, marks=pytest.mark.soak) for forge in (without_a_code, with_a_link_made_up)]


@pytest.mark.parametrize("forge", [with_a_code_made_up, into_the_record, *MORE])
def test_none_of_a_plan_whose_approval_is_forged(rig: Rig, forge: Callable[[str], None]) -> None:
    notes.fault(f"approval forged: {forge.__name__.replace('_', ' ')}", "the question")
    put_approver("ana", new_secret())
    w = everything(rig)
    policy = rig.home / "approver.yaml"
    policy.write_text(rig.policy.read_text() + "approvers: [ana]\n")
    run = w.run("approve", policy=str(policy))
    forge(run)
    w.work()
    assert acts_done(rig.worlds, w.name) == []
    assert outcome(run) == "waiting"


# --- the last look before each kind's step ---


class StartedStep:
    """An action run that has begun, with a step of every kind, on an owner of its own; which kinds were then done."""

    def __init__(self, name: str) -> None:
        self.name, self.fleet = name, f"f-{name}"
        self.done: list[str] = []
        fleet = Fleet(name=self.fleet, nodes=(Node(name=name, local=True),))
        self.context = Context(fleet, name, lambda _: LocalHost(name))
        run = records.create_record(records.ACT, {}, state=Running(), key=uuid4().hex, name=name, tags=[], labels={})
        self.run = str(run.id)
        self.execution = execution.number(self.run)
        plan = Plan(name="everything", steps=tuple(step_of(kind, name) for kind in EVERY), for_causes=("c",))
        (self.lock,) = lock_all(plan, {"runbook_run": self.run, "target": name, "fleet": self.fleet}, self.context)
        set_state(self.lock.act_run, Running())

    def do(self, i: int, allowed: Callable[[], None] = lambda: None, lock: Lock | None = None) -> tuple[str, RefusalCode | None]:
        """Step `i` by the engine: how it ended, and which guard said no."""
        session = Session(
            lock or self.lock, self.context, Timeline(), self.run, self.execution, before=lambda _: True, allowed=allowed
        )
        session.rows = [""] * len(EVERY)
        how, _ = action_run._one(session, i, self.lock.steps[i])
        return how, session.refused.code if session.refused else None

    def record(self, step: Step, _context: Context) -> ActionResult:
        """In place of what a kind does."""
        self.done.append(step.kind)
        return ActionResult(said=())

    def over(self) -> None:
        """Ends both runs."""
        for run in (self.lock.act_run, self.run):
            set_state(run, Completed(message="the test is over"))


@pytest.fixture
def begun(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartedStep]:
    made = StartedStep(f"k{uuid4().hex[:10]}")
    for kind in EVERY:
        monkeypatch.setitem(ACTIONS, kind, replace(ACTIONS[kind], do=made.record, wait_s=None))
    yield made
    made.over()


def not_allowed() -> None:
    raise ActionRefused(RefusalCode.POLICY, "by the files, read again")


@contextmanager
def tripped(fleet: str) -> Iterator[None]:
    trip(fleet, "a test", utc_now())
    try:
        yield
    finally:
        assert reset_breaker(fleet)


@contextmanager
def frozen_after_its_row() -> Iterator[None]:
    """The freeze comes when the step is written down as begun, before its command."""

    def strike(point: str, _text: str) -> None:
        if point == "step-begun":
            store.set_variable(FREEZE, {"at": "now", "why": "a test"})

    LISTENERS.append(strike)
    try:
        yield
    finally:
        LISTENERS.remove(strike)
        store.delete_variable(FREEZE)


def test_none_is_begun_once_it_may_not_be(begun: StartedStep) -> None:
    """Asked right before each kind's step: freeze, breaker, files, and after all of them a control that does each once."""

    def every(expected: RefusalCode, **how: Any) -> None:
        assert [begun.do(i, **how) for i in range(len(EVERY))] == [("refused", expected)] * len(EVERY)
        assert begun.done == []

    with frozen():
        every(RefusalCode.FROZEN)
    with tripped(begun.fleet):
        every(RefusalCode.BREAKER_OPEN)
    every(RefusalCode.POLICY, allowed=not_allowed)
    set_state(begun.lock.act_run, Crashed(message="declared dead by a test"))
    every(RefusalCode.SUPERSEDED)
    set_state(begun.lock.act_run, Running())
    assert [begun.do(i) for i in range(len(EVERY))] == [("done", None)] * len(EVERY)
    assert begun.done == list(EVERY)
    begun.done.clear()
    every(RefusalCode.SUPERSEDED, lock=begun.lock.model_copy(update={"token": "another process"}))
    execution.number(begun.run)  # a second process begins the run
    every(RefusalCode.SUPERSEDED)


def test_none_is_done_when_the_freeze_comes_after_its_row(begun: StartedStep) -> None:
    for i in range(len(EVERY)):
        with frozen_after_its_row():
            assert begun.do(i) == ("refused", RefusalCode.FROZEN)
    assert begun.done == []
    assert [s.begun for s in read_steps(begun.lock.act_run)] == [False] * len(EVERY)  # nothing was changed, and its record says so
