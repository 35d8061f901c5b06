"""A person in Prefect's UI: form, tasks by name, report, approval form with the whole plan, outcome as state name."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import expect
from prefect.client.schemas.objects import FlowRun

from deployments.processes import stop
from deployments.register import register_all
from deployments.state import auth_string
from flows import artifacts, store
from flows.config import load_fleet
from flows.reaper import sweep
from flows.sweep.board import board_key
from runbooks.core.names import slug
from tasks.context import utc_now
from tests.faults.test_worker import ended, start_worker, wait_until
from tests.support.engine_rig import Rig, kill_and_wait
from tests.support.foreign import HOSTILE_RUN
from tests.support.toy import acts_done, write_world
from tests.support.ui import Ui, open_ui


@pytest.fixture(scope="module")
def ui(rig: Rig) -> Iterator[Ui]:
    with open_ui(rig.state.ui, auth_string()) as opened:
        yield opened


def newest(slug: str) -> FlowRun:
    return store.find_runs([store.RUNBOOK_TAG, f"runbook:{slug}"], limit=1)[0]


def test_from_the_form_to_fixed(rig: Rig, ui: Ui) -> None:
    w = rig.world()
    register_all(fleet=str(w.fleet), policy=str(rig.policy))
    deployment = store.ask(lambda c: c.read_deployment_by_name("zombie-gpu/zombie-gpu"))
    ui.fill_form(str(deployment.id), w.name, "approve")
    ui.shows("In the modes approve and auto it may: continue-processes")
    assert ui.page.get_by_text("Property is type").count() == 0
    ui.submit()
    w.work()
    run = str(newest("zombie-gpu").id)
    ui.go("/runs")
    ui.shows(f"zombie-gpu {w.name}: waits for approve: clean up only (or 1 other plan)")  # the list reads like a worklist
    form = ui.open_decision(run)
    assert ui.first_words().startswith("Resume with nothing chosen rejects.")
    assert not ui.details_shown()  # so the choice stands at once below the plans
    assert "Without an answer by" in form
    assert w.name in form
    assert f"pid of {w.name}" in form  # the plan names what it will touch
    ui.decide("approve", "ana", "seen the logs")
    w.work()
    ui.open_run(run)
    ui.shows("Fixed")
    ui.page.get_by_role("tab", name="Task Runs").click()
    ui.shows(f"judge {w.name}")
    ui.go(f"/artifacts/artifact/{artifact(report_key(run))}")
    ui.shows("Allowed by person (ana, name as typed")
    ui.go(f"/artifacts/artifact/{artifact(board_key(load_fleet(str(w.fleet)).name))}")
    ui.shows("What waits for a person")
    well = ui.page.get_by_text("1 with nothing wrong")
    expect(well).to_be_visible()
    expect(ui.page.get_by_role("cell", name=w.name, exact=True)).to_be_hidden()
    well.click()
    expect(ui.page.get_by_role("cell", name=w.name, exact=True)).to_be_visible()
    assert len(acts_done(rig.worlds, w.name)) == 1


def test_a_hostile_name_hides_nothing_in_the_approval_form(rig: Rig, ui: Ui) -> None:
    """The world's identity, chosen by an attacker, stands in headline, subject and command."""
    w = rig.world(identity=HOSTILE_RUN)
    text = ui.open_decision(w.run("approve"))
    form = ui.page.get_by_role("dialog").locator(".prose")
    assert "fix nightly⏎" in text  # the true command
    assert text.index("approve mode") < text.index("fix nightly")
    assert [h.strip() for h in form.locator("h3").all_inner_texts()] == [
        "Choice 1: “clean up only”",
        "Choice 2: “clean up and restart”",
    ]
    assert form.locator("a, img, svg, iframe, script, table, hr, ol, h1, h4, input").count() == 0
    assert form.locator("details").count() == 1  # our own fold, of what decides nothing
    assert form.locator("pre").first.evaluate("e => e.scrollWidth <= e.clientWidth")  # nothing stands beyond the edge
    ui.decide("reject", "ana")


def artifact(key: str) -> str:
    return str(store.ask(lambda c: artifacts._latest(c, key)).latest_id)


def report_key(run: str) -> str:
    return slug("report", "zombie-gpu", str(store.read_run(run).labels["target"]))


@pytest.mark.soak
def test_a_question_outlives_restarts_of_worker_and_server(rig: Rig) -> None:
    """Asked by one worker, decided in the browser after all of them were stopped and started, carried on by another."""
    w = rig.world()
    register_all(fleet=str(w.fleet), policy=str(rig.policy))
    deployment = store.ask(lambda c: c.read_deployment_by_name("zombie-gpu/zombie-gpu"))
    worker = start_worker(rig)
    with open_ui(rig.state.ui, auth_string()) as ui:
        ui.fill_form(str(deployment.id), w.name, "approve")
        ui.submit()
        wait_until(lambda: newest("zombie-gpu").parameters["target"] == w.name and waits(newest("zombie-gpu")))
    run = str(newest("zombie-gpu").id)
    kill_and_wait(worker.pid)
    kill_and_wait(rig.server_pid())
    rig.start_server()
    worker = start_worker(rig)
    with open_ui(rig.state.ui, auth_string()) as ui:
        assert f"pid of {w.name}" in ui.open_decision(run)
        kill_and_wait(worker.pid)  # and once more between question and answer
        ui.decide("approve", "ana", "after the restart")
        worker = start_worker(rig)
        wait_until(lambda: ended(run))
        ui.open_run(run)
        ui.shows("Fixed")
        ui.go(f"/artifacts/artifact/{artifact(report_key(run))}")
        ui.shows("Allowed by person (ana, name as typed")
    stop(worker, limit_s=15)
    assert len(acts_done(rig.worlds, w.name)) == 1


def waits(run: FlowRun) -> bool:
    return bool(run.state and run.state.is_paused())


@pytest.mark.soak
def test_a_question_that_nobody_answers_ends_with_a_report(rig: Rig, ui: Ui) -> None:
    w = rig.world()
    run = w.run("approve")
    assert w.name in ui.open_decision(run)
    sweep(utc_now() + timedelta(seconds=3700))  # what the reaper does an hour later
    w.work()
    ui.open_run(run)
    ui.shows("Not decided")
    ui.go(f"/artifacts/artifact/{artifact(report_key(run))}")
    ui.shows("no decision before")
    assert acts_done(rig.worlds, w.name) == []


@pytest.mark.soak  # the command line rejects in `make test`
def test_rejected_stays_untouched(rig: Rig, ui: Ui) -> None:
    w = rig.world()
    run = w.run("approve")
    ui.open_decision(run)
    ui.decide("reject", "bo", "leave it")
    w.work()
    ui.open_run(run)
    ui.shows("Rejected")
    assert acts_done(rig.worlds, w.name) == []


@pytest.mark.soak
def test_a_plan_that_changed_meanwhile_is_asked_about_again(rig: Rig, ui: Ui) -> None:
    w = rig.world()
    run = w.run("approve")
    ui.open_decision(run)
    write_world(rig.worlds, w.name, sick=True, identity="another process")
    ui.decide("approve", "ana")
    w.work()
    assert acts_done(rig.worlds, w.name) == []
    assert "another process" in ui.open_decision(run)
    ui.decide("approve", "ana")
    w.work()
    ui.open_run(run)
    ui.shows("Fixed")
    assert len(acts_done(rig.worlds, w.name)) == 1
