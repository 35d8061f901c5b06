"""The audit counts what it promises to count: a record with nothing broken gives nought, and each planted breach gives one."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.states import Cancelling, Completed, Running

from flows import records, store
from flows.engine import steps
from flows.engine.approval import answer_run
from tests.scorecard import audit as the_audit
from tests.scorecard.audit import PROMISES, Record, audit, left_open
from tests.scorecard.freezes import read_freezes, watch_freezes
from tests.scorecard.secrets import SEED, secrets_in
from tests.support.engine_rig import Rig, World
from tests.support.freezing import frozen
from tests.support.planted import log_line, planted
from tests.support.set_state import set_state

NOTHING = dict.fromkeys(PROMISES, 0)


def record_of(w: World, *runs: str) -> Record:
    return Record({run: store.read_run(run) for run in runs}, w.acts())


def broken(record: Record) -> dict[str, int]:
    """The promises that are broken there, and how often."""
    found = audit(record)
    return {p: found[p] for p in PROMISES if found[p]}


@pytest.fixture(scope="module")
def fixed(rig: Rig) -> Record:
    """One automatic run that fixed its target."""
    w = rig.world()
    record = record_of(w, w.run("auto"))
    assert audit(record) == NOTHING | {"runs": 1, "actions": 1, "not_judged": 0, "not_compared": 0, "freezes": 0}
    return record


@pytest.fixture(scope="module")
def approved(rig: Rig) -> Record:
    """One run that fixed its target after a person said yes."""
    w = rig.world()
    run = w.run("approve", policy=str(only_asking(rig.home)))
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    w.work()
    record = record_of(w, run)
    assert audit(record) == NOTHING | {"runs": 1, "actions": 1, "not_judged": 0, "not_compared": 0, "freezes": 0}
    return record


def only_asking(folder: Path) -> Path:
    policy = folder / "only-asking.yaml"
    policy.write_text("mode: approve\nbudget: {nodes: 100, window_s: 3600}\nstorm: {settle_s: 0.05, alike: 1000}\n")
    return policy


def changed(record: Record, where: str, **parameters: Any) -> Record:
    """The record with other parameters of its runs, or of its actions."""

    def other(run: Any) -> Any:
        return run.model_copy(update={"parameters": run.parameters | parameters})

    if where == "runs":
        return record._replace(runs={i: other(r) for i, r in record.runs.items()})
    return record._replace(acts=[other(a) for a in record.acts])


def test_an_action_without_a_permission(fixed: Record, tmp_path: Path) -> None:
    assert broken(changed(fixed, "runs", policy=str(only_asking(tmp_path)))) == {"unapproved": 1}


@pytest.mark.parametrize("name", ["fixed", "approved"])
def test_one_permission_used_for_two_actions(request: pytest.FixtureRequest, name: str) -> None:
    record: Record = request.getfixturevalue(name)
    assert broken(record._replace(acts=record.acts * 2)) == {"twice": 1}


def another_identity(record: Record) -> dict[str, Any]:
    (act,) = record.acts
    return {"steps": [step | {"args": {"identity": "another"}} for step in act.parameters["steps"]]}


def another_digest(_: Record) -> dict[str, Any]:
    return {"digest": "0" * 64}


def another_holder(_: Record) -> dict[str, Any]:
    return {"token": "of somebody else"}


def another_kind(record: Record) -> dict[str, Any]:
    (act,) = record.acts
    return {"steps": [step | {"kind": "toy-wipe"} for step in act.parameters["steps"]]}


@pytest.mark.parametrize("name", ["fixed", "approved"])
@pytest.mark.parametrize("other", [another_identity, another_digest, another_holder, another_kind])
def test_an_action_on_another_target_than_was_allowed(
    request: pytest.FixtureRequest, name: str, other: Callable[[Record], dict[str, Any]]
) -> None:
    record: Record = request.getfixturevalue(name)
    assert broken(changed(record, "acts", **other(record))) == {"other_target": 1}


@pytest.fixture
def action(rig: Rig) -> Iterator[Any]:
    """An action run that began to work before a freeze."""
    parameters: dict[str, Any] = {"steps": [{}, {}], "about": {}}
    run = records.create_record(
        records.ACT, parameters, state=Running(), key=uuid4().hex, name="act-audit", tags=[store.ACT_TAG], labels={}
    )
    yield run
    set_state(run.id, Completed(message="the test is over"))


def test_a_step_that_begins_inside_a_freeze_of_an_action_that_began_before(
    rig: Rig, action: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(the_audit, "SLACK", timedelta())
    watch_freezes(rig.home)
    steps.begin(str(action.id), 0, "token", "toy-fix", 5)
    with frozen():
        steps.begin(str(action.id), 1, "token", "toy-fix", 5)
    record = Record({}, [action], read_freezes(rig.home))
    assert broken(record) == {"after_freeze": 1}
    steps.record(str(action.id), 1, steps.WITHDRAWN)
    assert broken(record) == {}, "it was not done after all"


def test_more_targets_than_the_budget_allows(fixed: Record, tmp_path: Path) -> None:
    (run,), (act,) = fixed.runs.values(), fixed.acts
    policy = tmp_path / "one.yaml"
    policy.write_text(Path(run.parameters["policy"]).read_text().replace("nodes: 100", "nodes: 1"))
    first = run.model_copy(update={"parameters": run.parameters | {"policy": str(policy)}})
    second = first.model_copy(update={"parameters": first.parameters | {"target": "another"}})
    about = {"about": act.parameters["about"] | {"runbook_run": "second"}}
    other = act.model_copy(update={"parameters": act.parameters | about})
    found = audit(Record({str(run.id): first, "second": second.model_copy(update={"id": run.id})}, [act, other]))
    assert found["over_budget"] == 1


def test_an_approval_that_led_to_nothing(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
    assert broken(record_of(w, run)) == {}, "a worker may still take it"
    set_state(run, Completed(message="ended and nobody was told"))
    assert broken(record_of(w, run)) == {"approvals_lost": 1}


@pytest.mark.parametrize("state", [Running(), Cancelling()])
def test_a_run_that_nobody_runs_and_that_is_not_ended(rig: Rig, nothing_left: None, monkeypatch: pytest.MonkeyPatch, state: Any) -> None:
    w = rig.world()
    run = w.run("diagnose")  # its process is gone
    set_state(run, state)
    with monkeypatch.context() as patch:
        patch.setattr(the_audit, "sweep", lambda _now: [])  # a reaper that forgot it
        assert run in [str(r.id) for r in left_open()]
    assert run not in [str(r.id) for r in left_open()]


def test_a_secret_in_the_database(tmp_path: Path) -> None:
    clean = [f"INSERT INTO log VALUES({i}, 'looked at node-{i}: it is well')" for i in range(1000)]

    def found(name: str, *more: str) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        return secrets_in([*clean, *more], folder)

    assert found("clean") == []
    assert any("planted" in f for f in found("cut", f"INSERT INTO log VALUES(1, '{planted(SEED)['anthropic'].text[30:60]}')"))
    assert any("in the database" in f for f in found("another", log_line(planted(SEED + 1)["stripe"])))
