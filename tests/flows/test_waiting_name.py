"""A run that waits is called after what it waits for, is found by either name, and has its own name back afterwards."""

from datetime import UTC, datetime

from prefect.states import Cancelled

from deployments.cli.approve import _waiting_run
from deployments.cli.show import find_run, question_page
from flows import store
from flows.alerts import AlertStart, runs_on
from flows.engine.approval import answer_run
from flows.engine.open_question import open_question
from flows.reaper import sweep
from flows.self_health import read_health
from runbooks.core.times import utc
from runbooks.core.unmark import plain
from tests.support.engine_rig import Rig, World
from tests.support.set_state import set_state


def alert(w: World) -> AlertStart:
    about = {"runbook": "zombie-gpu", "target": w.name, "fleet": str(w.fleet), "parameters": {}}
    return AlertStart(**about, key="k", mark="m", alert="a", at=datetime.now(UTC))


def test_a_question_names_its_run_until_it_is_answered(rig: Rig) -> None:
    w = rig.world()
    run, usual = w.run("approve"), f"zombie-gpu {w.name}"
    name = store.read_run(run).name
    assert name.startswith(f"{usual}: waits for approve: clean up only (or 1 other plan): ")
    assert [str(r.id) for r in runs_on(alert(w))] == [run]  # an alert joins it
    assert find_run(usual) == find_run(name) == _waiting_run(usual) == _waiting_run(name) == run
    asked = open_question(run)
    assert asked is not None
    assert asked.since is not None
    assert asked.until is not None
    question = question_page(run)
    assert question is not None
    since, until = utc(asked.since), utc(asked.until)
    assert f"Asked at {since}. Without an answer by {until}, the run ends as “Not decided”" in plain(question)
    waits = next(q for q in read_health("gpu-runbooks").waiting if q.run == run)
    assert (waits.since, waits.name) == (asked.since.isoformat(), name)
    assert answer_run(run, {"decision": "reject", "who": "ana"}) == ""
    w.work()
    ended = store.read_run(run)
    assert (ended.name, ended.state_name) == (usual, "Rejected")
    assert [str(r.id) for r in runs_on(alert(w))] == [run]


def test_a_question_that_was_cancelled_waits_for_nobody(rig: Rig) -> None:
    w = rig.world()
    run = w.run("approve")
    set_state(run, Cancelled(message="in the UI"))
    sweep()
    assert store.read_run(run).name == f"zombie-gpu {w.name}"
