"""The approve page in a real headless Chromium, as on a phone: opened, read, decided."""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import sync_playwright

from deployments.gateway.approve import approve_router
from flows import store
from tests.notify.conftest import Channels
from tests.notify.test_approve_link import link_in
from tests.support.engine_rig import Rig
from tests.support.toy import acts_done
from tests.support.ui import CHROMIUM, FLAGS


@pytest.fixture
def served() -> Iterator[str]:
    """A gateway of its own on a free port."""
    app = FastAPI()
    app.include_router(approve_router())
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(5)


def test_approved_from_a_phone(rig: Rig, channels: Channels, served: str) -> None:
    w = rig.world(identity="<img src=x onerror=alert(1)>")
    run = w.run("approve")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        faults: list[str] = []
        page.on("console", lambda m: faults.append(m.text))
        page.on("dialog", lambda d: faults.append(f"a script ran: {d.message}"))
        page.goto(served + link_in(channels))
        assert page.locator("img").count() == 0
        assert "fix <img src=x onerror=alert(1)>" in page.inner_text("pre")  # the command that would be run
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        box = page.get_by_role("button", name="Approve exactly this plan").bounding_box()
        assert box is not None
        assert box["height"] >= 40  # a thumb
        assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"  # the style passes its own policy
        page.get_by_role("radio").nth(1).check()
        page.get_by_label("Why").fill("seen the logs")
        page.get_by_role("button", name="Approve exactly this plan").click()
        page.get_by_role("heading", name="Approved").wait_for()
        page.go_back()
        page.reload()
        assert "Already decided" in page.inner_text("body")
        browser.close()
    assert faults == [] or all("410" in f for f in faults), faults
    w.work()
    assert store.read_run(run).labels["outcome"] == "fixed"
    assert [a.split()[0] for a in acts_done(rig.worlds, w.name)] == ["fix", "restart"]
    assert w.reports()[0]["permission"]["said"] == "seen the logs"
