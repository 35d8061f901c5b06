"""Approve links on a real Prefect server: one answer, by the right link, for the plan that was shown, or no effect."""

import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prefect.states import Cancelled

from deployments.gateway.approve import approve_router
from flows import store
from flows.engine.approval import answer_run
from runbooks.core.knowledge import load_runbook
from runbooks.notify.link import Ticket, read, sign
from tasks.approvers.secrets import new_secret, put_approver
from tasks.context import utc_now
from tasks.notify.keys import link_key
from tests.notify.conftest import Channels
from tests.support.engine_rig import Rig, World
from tests.support.set_state import set_state
from tests.support.toy import FORBIDDER, acts_done, write_world


def gateway() -> TestClient:
    """A gateway with nothing but the approve pages; each has its own memory."""
    app = FastAPI()
    app.include_router(approve_router())
    return TestClient(app, base_url="https://gw.test", raise_server_exceptions=False)


def link_in(channels: Channels, nth: int = -1) -> str:
    texts = (str(m["message"]) for m in channels.hook.got)
    found = [f[1] for f in (re.search(r"http://gw\.test(/approve/\S+)", t) for t in texts) if f]
    assert found, channels.hook.got
    return found[nth]


def form_of(page: str, **fields: str) -> dict[str, str]:
    found = re.search(r'name="form" value="([^"]+)"', page)
    assert found, page
    return {"form": found[1]} | fields


def post(client: TestClient, link: str, **fields: str) -> Any:
    """As a browser does: open, fill, send."""
    return client.post(link, data=form_of(client.get(link).text, **fields))


@pytest.fixture
def waiting(rig: Rig, channels: Channels) -> Iterator[tuple[World, str, str]]:
    """A world, its waiting run, the link in ana's message."""
    w = rig.world()
    run = w.run("approve")
    yield w, run, link_in(channels)
    end(run)


def end(run: str) -> None:
    """So that no other test's worker finds it."""
    set_state(run, Cancelled(message="the test is over"))


def paused(run: str) -> bool:
    state = store.read_run(run).state
    return bool(state and state.is_paused())


def test_the_link_opens_a_page_that_decides_nothing_and_a_form_that_does(
    rig: Rig, channels: Channels, waiting: tuple[World, str, str]
) -> None:
    w, run, link = waiting
    client = gateway()
    for _ in range(3):  # previews, prefetch
        shown = client.get(link)
    assert shown.status_code == 200
    assert paused(run)
    for part in ("clean up only", "toy-fix on", "<li>reboot</li>", "For ana alone", "Reject"):
        assert part in shown.text
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert client.head(link).status_code == 405
    done = post(client, link, decision="approve", choice="clean up and restart", why="ok <b>")
    assert done.status_code == 200
    assert "Approved" in done.text
    again = gateway().post(link, data=form_of(shown.text, decision="reject"))  # another gateway, an old form
    assert (again.status_code, "Already decided" in again.text) == (410, True)
    w.work()
    assert gateway().get(link).status_code == 410
    assert len(acts_done(rig.worlds, w.name)) == 2
    (report,) = w.reports()
    assert report["permission"]["who"] == "ana"
    assert report["permission"]["checked"] == "signed link"
    assert "link:" not in json.dumps(report)


def test_reject_by_link(rig: Rig, waiting: tuple[World, str, str]) -> None:
    w, run, link = waiting
    assert "Rejected" in post(gateway(), link, decision="reject", why="no").text
    w.work()
    assert store.read_run(run).labels["outcome"] == "rejected"
    assert acts_done(rig.worlds, w.name) == []


def test_two_gateways_many_posts_at_once_one_answer(rig: Rig, waiting: tuple[World, str, str]) -> None:
    w, run, link = waiting
    form = form_of(gateway().get(link).text)
    clients = [gateway(), gateway()]

    def one(i: int) -> int:
        decision = "approve" if i % 3 else "reject"
        return int(clients[i % 2].post(link, data=form | {"decision": decision}).status_code)

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(one, range(8)))
    assert codes.count(200) == 1, codes
    assert set(codes) == {200, 410}
    w.work()
    assert len(acts_done(rig.worlds, w.name)) <= 1
    assert store.read_run(run).labels["outcome"] in ("fixed", "rejected")


def test_a_plan_that_changed_makes_the_link_void(rig: Rig, channels: Channels, waiting: tuple[World, str, str]) -> None:
    w, run, link = waiting
    old = gateway().get(link).text
    write_world(rig.worlds, w.name, sick=True, identity="another pid")
    assert answer_run(run, {"decision": "approve", "who": "bo"}) == ""
    w.work()
    assert paused(run)
    void = gateway().post(link, data=form_of(old, decision="approve"))
    assert (void.status_code, "The plan has changed" in void.text) == (410, True)
    assert paused(run)
    assert link_in(channels) != link
    assert post(gateway(), link_in(channels), decision="approve").status_code == 200
    w.work()
    assert acts_done(rig.worlds, w.name)[0].startswith("fix another pid")


def test_a_plan_that_a_finding_forbids_is_told_with_its_reason_and_cannot_be_chosen(rig: Rig, channels: Channels) -> None:
    w = rig.world(forbids=["toy-restart"])
    run = w.run("approve")
    client, link = gateway(), link_in(channels)
    page = client.get(link).text
    assert re.findall(r'name="choice" value="([^"]+)"', page) == ["clean up only"]
    assert "<pre>restart</pre>" not in page
    why = load_runbook("zombie-gpu").causes[FORBIDDER].title
    assert f"“clean up and restart” is not offered: “{why}” forbids toy-restart" in html.unescape(page)
    refused = post(client, link, decision="approve", choice="clean up and restart", why="I know better")
    assert (refused.status_code, "no plan of that name" in refused.text) == (409, True)
    assert paused(run)
    assert post(client, link, decision="approve").status_code == 200
    w.work()
    assert [line.split()[0] for line in acts_done(rig.worlds, w.name)] == ["fix"]
    assert store.read_run(run).labels["outcome"] == "fixed"


@pytest.mark.soak
def test_an_answer_that_slips_to_the_next_question_is_not_taken(rig: Rig, waiting: tuple[World, str, str]) -> None:
    """Between the gateway's look and its answer the plan changes: the engine sees that the proof is for the old one."""
    from flows.engine.answers import LINK
    from runbooks.notify.link import proof

    w, run, link = waiting
    ticket = read(link.removeprefix("/approve/"), link_key())
    write_world(rig.worlds, w.name, sick=True, identity="the next one")
    assert answer_run(run, {"decision": "approve", "who": "bo"}) == ""
    w.work()
    signed = LINK + proof(ticket, "approve", "clean up only", link_key()) + ":"
    answer = {"decision": "approve", "choice": "clean up only", "who": "ana", "code": signed}
    assert answer_run(run, answer) == ""
    w.work()
    assert paused(run)
    assert acts_done(rig.worlds, w.name) == []


def test_expired_foreign_and_withdrawn_links_have_no_effect(rig: Rig, channels: Channels, waiting: tuple[World, str, str]) -> None:
    _, run, link = waiting
    client, key = gateway(), link_key()
    ticket = read(link.removeprefix("/approve/"), key)
    form = form_of(client.get(link).text, decision="approve")

    def page(t: Ticket, k: bytes = key) -> tuple[int, str]:
        found = client.get(f"/approve/{sign(t, k)}")
        return found.status_code, found.text

    assert page(ticket.model_copy(update={"ends": utc_now() - timedelta(seconds=1)}))[0] == 410
    assert page(ticket, b"x" * 32)[0] == 404
    assert "withdrawn" in page(ticket.model_copy(update={"person": "mallory"}))[1]
    assert page(ticket.model_copy(update={"run": str(UUID(int=7))}))[0] == 404
    assert "changed" in page(ticket.model_copy(update={"key": "0" * 40 + "-0"}))[1]
    other = sign(ticket.model_copy(update={"ends": ticket.ends - timedelta(seconds=5)}), key)
    assert client.post(f"/approve/{other}", data=form).status_code == 403  # the form of another link
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.test"}):
        assert client.post(link, data=form, headers=headers).status_code == 403
    assert client.post(link, data=form | {"choice": "no such plan"}).status_code == 409
    assert client.post(link, json=form).status_code == 415
    assert client.post(link, data=form | {"why": "x" * 9000}).status_code == 413
    assert client.post(link, data={"form": [form["form"]] * 2, "decision": "approve"}).status_code == 400
    assert client.post(link, data=form | {"decision": "maybe"}).status_code == 400
    assert paused(run)
    channels.write(person="bo")
    assert client.get(link).status_code == 410
    assert client.post(link, data=form).status_code == 410
    assert paused(run)
    channels.write()
    assert client.post(link, data=form, headers={"origin": "https://gw.test"}).status_code == 200


def test_hostile_names_are_text(rig: Rig, channels: Channels) -> None:
    """A process or target may be called anything; neither page nor message make anything of it."""
    evil = "<script>alert(1)</script><!channel> @everyone \u202e\n\r& \"'`|*_"
    w = rig.world(identity=evil)
    run = w.run("approve")
    sent = str(channels.hook.got[-1]["message"])
    assert "<!channel>" not in sent
    assert "@everyone" not in sent
    assert "\u202e" not in sent
    text = gateway().get(link_in(channels)).text
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    end(run)


def test_a_destructive_plan_needs_the_code_of_the_links_person(rig: Rig, channels: Channels) -> None:
    from tests.notify.test_codes import code_now

    secret = new_secret()
    put_approver("ana", secret)
    policy = rig.home / "link-codes.yaml"
    policy.write_text(rig.policy.read_text() + "approvers: [ana]\n", encoding="utf-8")
    w = rig.world(identity="wipe by link")
    run = w.run("approve", policy=str(policy))
    page = gateway().get(link_in(channels)).text
    assert "DESTRUCTIVE" in page
    assert 'autocomplete="one-time-code"' in page
    assert post(gateway(), link_in(channels), decision="approve", code="12345").status_code == 200  # the engine judges codes
    w.work()
    assert paused(run)
    assert "not accepted" in str(channels.hook.got[-1]["message"])
    assert post(gateway(), link_in(channels), decision="approve", code=code_now(secret)).status_code == 200
    w.work()
    assert w.reports()[0]["permission"]["checked"] == "signed link and approver code"
    assert len(acts_done(rig.worlds, w.name)) == 1


def test_the_server_being_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    def away(*_: object) -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr("flows.notify.link_answers.store.read_run", away)
    monkeypatch.setattr("flows.notify.link_answers._person", lambda _: None)
    ticket = Ticket(run=str(UUID(int=1)), key="0" * 40 + "-0", person="ana", ends=utc_now() + timedelta(hours=1))
    found = gateway().get(f"/approve/{sign(ticket, link_key())}")
    assert found.status_code == 503
    assert "Nothing was decided" in found.text


def test_only_senders_of_bad_links_are_slowed_down(
    waiting_for_fuzz: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.notify.link_answers._person", lambda _: None)  # its notifications.yaml is gone by now
    _, link, _ = waiting_for_fuzz
    client = gateway()
    codes = [client.get(f"/approve/{link[-20:]}{i}").status_code for i in range(30)]
    assert (codes[0], codes[-1]) == (404, 429)
    assert client.get(link).status_code == 200


FUZZ_CLIENT = gateway()
TOKENS = st.one_of(
    st.text(max_size=400), st.from_regex(r"[A-Za-z0-9_-]{0,300}\.[A-Za-z0-9_-]{0,60}", fullmatch=True), st.just("../x")
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=TOKENS, body=st.binary(max_size=200), kind=st.sampled_from(["application/x-www-form-urlencoded", "text/x"]))
def test_fuzz_without_a_valid_signature_nothing_happens(token: str, body: bytes, kind: str) -> None:
    from urllib.parse import quote

    path = f"/approve/{quote(token.encode('utf-8', 'surrogatepass'), safe='')}"
    for found in (FUZZ_CLIENT.get(path), FUZZ_CLIENT.post(path, content=body, headers={"content-type": kind})):
        assert found.status_code in (404, 405, 429, 307), (path, found.status_code)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), to=st.sampled_from("AZaz09-_."), body=st.binary(max_size=100))
def test_fuzz_a_changed_link_or_form_has_no_effect(
    waiting_for_fuzz: tuple[str, str, str], at: int, to: str, body: bytes
) -> None:
    _, link, form = waiting_for_fuzz
    i = len("/approve/") + at % (len(link) - len("/approve/"))
    changed = link[:i] + to + link[i + 1 :]
    if changed != link:
        assert FUZZ_CLIENT.post(changed, data={"form": form, "decision": "approve"}).status_code in (404, 429)
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert FUZZ_CLIENT.post(link, content=body, headers=kind).status_code in (400, 403, 429)


@pytest.fixture(scope="module")
def waiting_for_fuzz(rig: Rig) -> Iterator[tuple[str, str, str]]:
    """A waiting run, a link to it, the form's token."""
    w = rig.world()
    run = w.run("approve")
    state = store.read_run(run).state
    assert state is not None
    key = str(state.state_details.pause_key)
    token = sign(Ticket(run=run, key=key, person="ana", ends=utc_now() + timedelta(hours=1)), link_key())
    from runbooks.notify.link import form_token

    yield run, f"/approve/{token}", form_token(token, link_key())
    assert paused(run)  # after all that
    end(run)
