"""Every kind of link that we write, followed as its reader does: a browser without cookies, the log-in, the page."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright
from prefect.states import Cancelled

from deployments.catalog import programs
from deployments.cli.main import main
from deployments.state import auth_string
from flows import artifacts, store
from flows.config import load_fleet
from flows.notify.outbox import message_on
from flows.sweep.board import board_key, sweep_key
from flows.ui_pages import START, UiPage
from runbooks.core.names import slug
from runbooks.notify.text import digest_of
from tests.notify.conftest import Channels
from tests.notify.test_approve_link import gateway, link_in
from tests.support.engine_rig import Rig
from tests.support.links import links_in, promised, sources
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


def night(rig: Rig, fleet: Path) -> str:
    """The id of a nightly over that fleet."""
    id_file = rig.home / f"{fleet.stem}.night"
    parameters = {"fleet": str(fleet), "policy": None, "out": str(rig.home / "nights")}
    rig.wait(rig.start({"do": "run", "slug": "nightly", "parameters": parameters, "id_file": str(id_file)}))
    return id_file.read_text()


def typed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command printed."""
    assert main(list(args)) == 0
    return capsys.readouterr().out


def forms() -> dict[str, str]:
    """What the run form of each of our deployments shows: its description, and the words at its fields."""
    every = store.ask(lambda c: c.read_deployments())
    ours = {s.name for s in programs()}
    return {f"form of {d.name}": f"{d.description} {json.dumps(d.parameter_openapi_schema)}" for d in every if d.name in ours}


def asked_of(run: str) -> str:
    """All that the server keeps of a question: its form, its fields, and what `show` prints of it."""
    return " ".join(f"{json.loads(i.value) if i.value.startswith(chr(34)) else i.value}" for i in store.inputs(run, "", 50))


def followed(browser: Browser, rig: Rig, link: str) -> bool:
    """Whether a reader without cookies comes where it says."""
    return lands(browser, rig.state.ui, link, auth_string(), promised(link))


def clicked(page: Page, rig: Rig, link: str) -> bool:
    """Whether one who is logged in, as who sees a page of the UI, comes where the page's link says."""
    page.goto(rig.state.ui + link, wait_until="domcontentloaded")
    try:
        page.get_by_text(promised(link)).first.wait_for(timeout=LANDS_MS)
    except TimeoutError:
        return False
    return page.url.rpartition("/")[2].partition("?")[0] == link.rpartition("/")[2]


def opens(opened: list[str], url: str) -> bool:
    """A browser that is there."""
    opened.append(url)
    return True


@pytest.fixture
def written(
    rig: Rig, channels: Channels, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[dict[str, set[str]], str]]:
    """The links of all that our own renderers write, by its kind; the key of the page of what waits."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", partial(opens, opened))
    monkeypatch.setattr("deployments.cli.login._has_screen", lambda: True)
    channels.file.write_text(channels.file.read_text().replace("http://ui.test", rig.state.ui), encoding="utf-8")
    start = store.ask(lambda c: artifacts._latest(c, START))
    left = typed(capsys, "status") + str(start.data if start else "")
    others = {x for x in links_in(left) if not x.startswith((rig.state.ui, "/"))}  # systems that headlines of other tests name
    w = rig.world()
    fleet = f"name: f-{w.name}\nnodes: [{{name: {w.name}, local: true, labels: {{kind: toy}}}}]\n"
    w.fleet.write_text(fleet, encoding="utf-8")
    w.run("diagnose", target="label:kind=toy")
    run, slept = w.run("approve"), night(rig, w.fleet)
    told_of = [m for r in (run, slept) if (m := message_on(store.read_run(r)))]
    report, board = slug("report", "zombie-gpu", w.name), board_key(load_fleet(str(w.fleet)).name)
    pages = [board, START, report, slug("fan-out", "zombie-gpu", "label:kind=toy"), sweep_key("nightly", f"f-{w.name}")]
    texts = {
        **{key: page_of(key) for key in pages},
        **forms(),
        "approval form": asked_of(run),
        "address of the first page": artifacts.addresses([START])[START],
        "prefect.yaml": Path("deployments/prefect.yaml").read_text(encoding="utf-8").partition("\ndeployments:")[2],
        "login": typed(capsys, "login") + " ".join(opened),
        "status": typed(capsys, "status"),
        "show": typed(capsys, "show", run) + typed(capsys, "show", run, "--web") + typed(capsys, "show", run, "--json"),
        "files": " ".join(p.read_text() for folder in (w.out, rig.home / "nights") for p in folder.rglob("*.md")),
        **{f"message {i}": f"{m['title']} {m['message']}" for i, m in enumerate(channels.hook.got)},
        "digest": " ".join(digest_of(told_of, told_of[0].at)),
        "gateway's page": gateway().get(link_in(channels)).text,
    }
    assert len(told_of) == 2
    assert opened
    yield {kind: {x for x in links_in(text) if x not in {*sources(), *others}} for kind, text in texts.items()}, board
    set_state(run, Cancelled(message="the test is over"))


def test_every_link_lands(rig: Rig, browser: Browser, written: tuple[dict[str, set[str]], str]) -> None:
    """From the command line, a message or a file without cookies; from a page of the UI logged in."""
    found, board = written
    assert [kind for kind in ("login", "status", "show", "files", "message 0", board, "form of nightly") if not found[kind]] == []
    every = set().union(*found.values())
    web = {x for x in every if x.startswith("http") and not x.startswith("http://gw.test/approve/")}
    assert [x for x in web if not x.startswith(rig.state.ui)] == []
    dead = {x for x in web if not followed(browser, rig, x)}
    within = {x for x in every if x.startswith("/")}
    same = sorted((x for x in within if UiPage.DEPLOYMENT in x), key=promised)[2:]  # each form is there; two of them are opened
    with landed(browser, rig.state.ui, artifacts.addresses([board])[board], auth_string(), "What waits for a person") as page:
        dead |= {x for x in within - set(same) if not clicked(page, rig, x)}
    assert {kind: links & dead for kind, links in found.items() if links & dead} == {}
