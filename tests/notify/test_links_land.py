"""Every kind of link that we write, followed as its reader does: a browser without cookies, the log-in, the page."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright
from prefect.states import Cancelled

from deployments.cli.facts import facts_of
from deployments.state import auth_string
from flows import artifacts, store
from flows.config import load_fleet
from flows.sweep.board import board_key
from flows.ui_pages import START
from runbooks.core.names import slug
from tests.notify.conftest import Told
from tests.notify.test_approve_link import gateway, link_in
from tests.support.engine_rig import Rig
from tests.support.set_state import set_state
from tests.support.ui import LANDS_MS, landed, lands, launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as p:
        made = launched(p)
        yield made
        made.close()


def page_of(key: str) -> str:
    return str(store.ask(lambda c: artifacts._latest(c, key)).data)


def link_to(text: str, what: str) -> str:
    """The one address in `text` that ends with `what`."""
    found = set(re.findall(rf"[^\s()<>\"]*/{re.escape(what)}(?=[\s()<>\"]|$)", text))
    assert len(found) == 1, text
    return str(found.pop())


def test_every_kind_of_link_lands(rig: Rig, told: Told, browser: Browser) -> None:
    told.file.write_text(told.file.read_text().replace("http://ui.test", rig.state.ui), encoding="utf-8")
    w = rig.world()
    fleet = f"name: f-{w.name}\nnodes: [{{name: {w.name}, local: true, labels: {{kind: toy}}}}]\n"
    w.fleet.write_text(fleet, encoding="utf-8")
    every = w.run("diagnose", target="label:kind=toy")
    run = w.run("approve")
    other = next(r for r in store.find_runs([store.RUNBOOK_TAG]) if r.labels.get("fan-out") == every)
    report, board = slug("report", "zombie-gpu", w.name), board_key(load_fleet(str(w.fleet)).name)
    message = str(told.hook.got[-1]["message"])
    shown = artifacts.addresses([report, board, START])
    ident = shown[report].rpartition("/")[2]
    found = {
        "command line": (facts_of(run)["ui"], w.name),
        "landing page, run": (link_to(page_of(board), run), w.name),
        "page to begin with": (shown[START], "How to run something"),
        "fan-out": (link_to(page_of(slug("fan-out", "zombie-gpu", "label:kind=toy")), str(other.id)), str(other.name)),
        "report": (link_to(page_of(report), run), w.name),
        "message, run": (link_to(message, run), w.name),
        "message, report": (link_to(message, ident), "The plans (choose one)"),
        "gateway's page": (link_to(gateway().get(link_in(told)).text, run), w.name),
    }
    missed = {kind: link for kind, (link, text) in found.items() if not lands(browser, rig.state.ui, link, auth_string(), text)}
    assert missed == {}
    with landed(browser, rig.state.ui, shown[board], auth_string(), "What waits for a person") as page:  # and on from there
        page.goto(rig.state.ui + link_to(page_of(board), ident), wait_until="domcontentloaded")
        page.get_by_text("The plans (choose one)").first.wait_for(timeout=LANDS_MS)
    set_state(run, Cancelled(message="the test is over"))
