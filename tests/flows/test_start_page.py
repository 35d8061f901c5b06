"""The page to begin with: there from `up` on, linked by every deployment, the fleet's own page or a line for each fleet."""

from functools import partial

from prefect.client.orchestration import SyncPrefectClient

from deployments.catalog import programs
from flows import artifacts, store
from flows.config import load_fleet
from flows.sweep.board import publish_board
from flows.ui_pages import START, start_path
from tests.support.engine_rig import Rig


def test_the_first_page_names_what_is_wrong_what_waits_and_links_forms(rig: Rig) -> None:
    w, other = rig.world(), rig.world()
    publish_board(load_fleet(str(other.fleet)))
    run = w.run("approve")
    fleet = load_fleet(str(w.fleet)).name
    page = store.ask(lambda c: artifacts._latest(c, f"fleet-{fleet}")).data
    wrong, waits, forms = "## What is wrong now", "## What waits for a person", "## How to run something"
    order = (wrong, f"| {w.name} |", waits, f"/runs/flow-run/{run})", forms, "/run): Zombie GPU")
    places = [page.index(part) for part in order]
    assert places == sorted(places)
    start = store.ask(lambda c: artifacts._latest(c, START)).data
    assert f"[{fleet}]({start_path().replace(START, f'fleet-{fleet}')}): {fleet}: 1 node(s), 1 with something wrong, 1 waiting" in start
    assert start.index("## What is wrong now") < start.index("## How to run something") < start.index("/run): Zombie GPU")


def test_every_deployment_that_people_see_links_it(rig: Rig) -> None:
    for spec in programs():
        found = store.ask(partial(SyncPrefectClient.read_deployment_by_name, name=f"{spec.name}/{spec.name}"))
        assert str(found.description).startswith(f"[What is wrong now, what waits, how to run something]({start_path()})"), spec.name
