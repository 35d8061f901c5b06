"""The page to begin with: there from `up` on, linked by every deployment, the fleet's own page or a line for each fleet."""

from functools import partial
from uuid import uuid4

from prefect.client.orchestration import SyncPrefectClient

from deployments.catalog import programs
from flows import artifacts, store
from flows.artifacts import start_path
from flows.config import load_fleet
from flows.sweep.board import gather_board, publish_board
from flows.ui_pages import START
from tests.support.engine_rig import Rig


def test_the_first_page_names_what_is_wrong_what_waits_and_links_forms(rig: Rig) -> None:
    w, other = rig.world(), rig.world()
    publish_board(load_fleet(str(other.fleet)))
    run = w.run("approve")
    fleet = load_fleet(str(w.fleet)).name
    board = f"fleet-{fleet}"
    page = store.ask(lambda c: artifacts._latest(c, board)).data
    wrong, waits, forms = "## What is wrong now", "## What waits for a person", "## How to run something"
    order = (wrong, f"| {w.name} |", waits, f"/runs/flow-run/{run})", forms, "/run): Zombie GPU")
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    start = store.ask(lambda c: artifacts._latest(c, START)).data
    assert f"[{fleet}]({artifacts.paths([board])[board]}): {fleet}: 1 node(s), 1 with something wrong, 1 waiting" in start
    all_fleets = (wrong, f"| {w.name} of {fleet} |", waits, f"[{w.name} of {fleet}](", f"/runs/flow-run/{run})", forms, "/run): Zombie GPU")
    places = [start.index(part) for part in all_fleets]
    assert places == sorted(places)


def test_every_deployment_that_people_see_links_it(rig: Rig) -> None:
    for spec in programs(start_path()):
        found = store.ask(partial(SyncPrefectClient.read_deployment_by_name, name=f"{spec.name}/{spec.name}"))
        assert str(found.description).startswith(f"[What is wrong now, what waits, how to run something]({start_path()})"), spec.name


MANY = 250  # more than the server gives at once


def test_it_links_our_forms_on_a_server_with_many_deployments_of_others(rig: Rig) -> None:
    """Most of them come before ours in the list; some are named like ours."""
    fleet = load_fleet(str(rig.world().fleet))
    ours = gather_board(fleet).to_run
    assert {r.name for r in ours} == {s.name for s in programs()} - {"sweep", "nightly-shard"}
    flow = store.ask(lambda c: c.create_flow_from_name(f"a-flow-of-others-{uuid4().hex[:6]}"))
    try:
        for name in (*(r.name for r in ours), *(f"a-{k}" for k in range(MANY))):
            store.ask(partial(SyncPrefectClient.create_deployment, flow_id=flow, name=name))
        assert gather_board(fleet).to_run == ours
    finally:
        store.ask(partial(SyncPrefectClient.delete_flow, flow_id=flow))  # its deployments go with it
