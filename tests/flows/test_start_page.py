"""The page to begin with: there from `up` on, linked by every deployment, the fleet's own page or a line for each fleet."""

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import IntervalSchedule

from deployments.catalog import programs
from flows import artifacts, store
from flows.artifacts import start_path
from flows.clock import server_now
from flows.config import load_fleet
from flows.sweep import board
from flows.sweep.board import counts_for, gather_board, publish_board, renew_boards, wrong_now
from flows.ui_pages import START
from runbooks.core.board import COUNTS_FOR
from runbooks.core.outcome import Outcome
from tests.support.engine_rig import Rig


def test_the_first_page_names_what_is_wrong_what_waits_and_links_forms(rig: Rig) -> None:
    w, other = rig.world(), rig.world()
    publish_board(load_fleet(str(other.fleet)))
    run = w.run("approve")
    fleet = load_fleet(str(w.fleet)).name
    page = page_of(fleet)
    wrong, waits, forms = "## What is wrong now", "## What waits for a person", "## How to run something"
    order = (waits, f"/runs/flow-run/{run})", wrong, f"| {w.name} |", forms, "/run): Zombie GPU")
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    start = store.ask(lambda c: artifacts._latest(c, START)).data
    address = artifacts.paths([f"fleet-{fleet}"])[f"fleet-{fleet}"]
    assert f"[{fleet}]({address}): {fleet}: 1 node(s), 1 with something wrong, 1 waiting" in start
    all_fleets = (waits, f"[{w.name} of {fleet}](", f"/runs/flow-run/{run})", wrong, f"| {w.name} of {fleet} |", forms, "/run): Zombie GPU")
    places = [start.index(part) for part in all_fleets]
    assert places == sorted(places)


def test_every_deployment_that_people_see_links_it(rig: Rig) -> None:
    for spec in programs(start_path()):
        found = store.ask(partial(SyncPrefectClient.read_deployment_by_name, name=f"{spec.name}/{spec.name}"))
        assert str(found.description).startswith(f"[What waits, what is wrong now, how to run something]({start_path()})"), spec.name


MANY = 250  # more than the server gives at once


def test_it_links_our_forms_on_a_server_with_many_deployments_of_others(rig: Rig) -> None:
    """Most of them come before ours in the list; some are named like ours."""
    fleet = load_fleet(str(rig.world().fleet))
    ours = gather_board(fleet.name, (), []).to_run
    assert {r.name for r in ours} == {s.name for s in programs()} - {"sweep", "nightly-shard"}
    flow = store.ask(lambda c: c.create_flow_from_name(f"a-flow-of-others-{uuid4().hex[:6]}"))
    try:
        for name in (*(r.name for r in ours), *(f"a-{k}" for k in range(MANY))):
            store.ask(partial(SyncPrefectClient.create_deployment, flow_id=flow, name=name))
        assert gather_board(fleet.name, (), []).to_run == ours
    finally:
        store.ask(partial(SyncPrefectClient.delete_flow, flow_id=flow))  # its deployments go with it


def page_of(fleet: str) -> str:
    return str(store.ask(lambda c: artifacts._latest(c, f"fleet-{fleet}")).data)


def test_the_reaper_writes_a_page_anew_when_a_verdict_no_longer_counts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was read since: the page, and `status`, do not go on calling the node healthy."""
    w = rig.world(sick=False)
    w.run("diagnose")
    fleet, now = load_fleet(str(w.fleet)).name, server_now()
    assert f"| {w.name} | healthy |" in page_of(fleet)
    assert [line for line in renew_boards(now) if fleet in line] == []
    assert [v for v in wrong_now() if v.target == w.name] == []
    later = now + COUNTS_FOR + timedelta(minutes=1)
    monkeypatch.setattr(board, "server_now", lambda: later)
    assert len([line for line in renew_boards(later) if fleet in line]) == 1
    assert f"| {w.name} | cannot tell | not read since" in page_of(fleet)
    assert "| healthy |" not in page_of(fleet)
    assert [(v.outcome, v.stale) for v in wrong_now() if v.target == w.name] == [(Outcome.CANNOT_TELL, True)]
    assert [line for line in renew_boards(later) if fleet in line] == [], "until the next one does not count"


def test_a_sweep_counts_for_two_periods_of_the_schedule_that_started_it(rig: Rig) -> None:
    flow = store.ask(lambda c: c.create_flow_from_name(f"swept-{uuid4().hex[:6]}"))
    on, off = (
        DeploymentScheduleCreate(schedule=IntervalSchedule(interval=timedelta(minutes=m)), active=m > 1) for m in (5, 1)
    )

    def counts(schedules: list[DeploymentScheduleCreate], scheduled: bool) -> timedelta:
        name = uuid4().hex
        made = store.ask(partial(SyncPrefectClient.create_deployment, flow_id=flow, name=name, schedules=schedules))
        return counts_for(FlowRun(flow_id=flow, deployment_id=made, auto_scheduled=scheduled))

    try:
        assert counts([on, off], True) == timedelta(minutes=10)
        assert counts([on, off], False) == COUNTS_FOR, "started by hand"
        assert counts([off], True) == COUNTS_FOR
        assert counts_for(FlowRun(flow_id=flow)) == COUNTS_FOR
    finally:
        store.ask(partial(SyncPrefectClient.delete_flow, flow_id=flow))
