"""Who may ask the gateway, how much, and what hostile requests do to it: nothing. No server behind it."""

import json
import logging
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from fastapi.testclient import TestClient
from httpx import ConnectError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments.errors import CommandError
from deployments.gateway import service as module
from deployments.gateway.app import create_app
from deployments.gateway.auth import sign, sign_pagerduty
from deployments.gateway.settings import GatewaySettings, Secrets, checked
from flows.alerts import AlertOutcome, AlertPlacement, AlertStart
from runbooks.core.refusal import RefusalCode
from tests.support.gateway import ALERTS, ago, firing, payload
from tests.support.silent_servers import FINE, KINDS, answering

TOKEN, HMAC, PAGERDUTY = "t" * 32, "h" * 32, "p" * 32
ALL = Secrets(token=TOKEN, hmac=HMAC, pagerduty=PAGERDUTY)
FLEET = "name: doors\nnodes: [{name: node-a, local: true}]\n"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what must be refused
BEARER = {"authorization": f"Bearer {TOKEN}"}


class World:
    """The application with everything behind it written down instead of done."""

    def __init__(self, folder: Path, **more: Any) -> None:
        (folder / "alerts.yaml").write_text(ALERTS)
        (folder / "fleet.yaml").write_text(FLEET)
        files = {"alerts": str(folder / "alerts.yaml"), "fleet": str(folder / "fleet.yaml")}
        given_ = GatewaySettings(**{"secrets": ALL, "workers": False, "per_second": 1e6, "burst": 10**6} | files | more)
        self.settings = given_
        self.placed: list[AlertStart] = []
        self.down = False
        self.app = create_app(given_)
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def place(self, start: AlertStart) -> AlertPlacement:
        if self.down:
            raise ConnectError("no")
        self.placed.append(start)
        return AlertPlacement(done=AlertOutcome.JOINED, run="r", name=start.name)

    def post(self, body: Any, source: str = "alertmanager", headers: dict[str, str] | None = None) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(f"/alerts/{source}", content=data, headers=BEARER if headers is None else headers)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with patch.object(module, "place", made.place), patch.object(module, "resolve", made.place), quiet_events(), own_clock():
        yield made


def quiet_events() -> Any:
    return patch.object(module, "alert_event")


def own_clock() -> Any:
    """Where there is no server to ask for the time."""
    return patch.object(module, "server_now", lambda: datetime.now(UTC))


BODY = json.dumps(payload([firing("node-a")])).encode()


def signed(stamp: float, secret: str = HMAC, body: bytes = BODY) -> dict[str, str]:
    return {"x-signature": sign(secret, str(int(stamp)), body), "x-signature-timestamp": str(int(stamp))}


def test_who_is_believed(world: World) -> None:
    now = time.time()
    grafana = {"x-grafana-alerting-signature": sign(HMAC, str(int(now)), BODY), "x-grafana-alerting-signature-timestamp": str(int(now))}
    for good in (BEARER, {"authorization": f"bearer {TOKEN}"}, signed(now), signed(now - 200), signed(now + 200), grafana):
        assert world.post(BODY, headers=good).status_code == 200
    assert len(world.placed) <= 6
    data = pagerduty(timedelta(0))
    several = {"x-pagerduty-signature": f"v1={'0' * 64},{sign_pagerduty(PAGERDUTY, data)}"}
    assert world.post(data, "pagerduty", several).status_code == 200


def pagerduty(ago: timedelta) -> bytes:
    """The recorded event, as if it had happened so long ago."""
    data = json.loads((Path(__file__).parent / "payloads/pagerduty.json").read_text())
    data["event"]["occurred_at"] = (datetime.now(UTC) - ago).isoformat()
    return json.dumps(data).encode()


def test_a_pagerduty_event_counts_once_and_for_a_day(world: World) -> None:
    """Its signature holds no time: whoever has an old body could send it again."""

    def send(body: bytes) -> dict[str, Any]:
        answer = world.post(body, "pagerduty", {"x-pagerduty-signature": sign_pagerduty(PAGERDUTY, body)})
        assert answer.status_code == 200
        return dict(answer.json())

    assert "more than a day old" in send(pagerduty(timedelta(hours=25)))["note"]
    assert world.placed == []
    assert "note" not in send(pagerduty(timedelta(hours=1)))
    assert "answered before" in send(pagerduty(timedelta(minutes=59)))["note"]


def test_alerts_are_counted_by_the_servers_clock(world: World) -> None:
    """Gateways on machines whose clocks are apart see the same repeats and storms."""
    at = datetime(2030, 1, 1, tzinfo=UTC)
    with patch.object(module, "server_now", lambda: at):
        assert world.post(BODY).status_code == 200
    assert [s.at for s in world.placed] == [at]


def test_who_is_not(world: World) -> None:
    now = time.time()
    no_time = {"x-signature": sign(HMAC, "", BODY)}
    bad = [{}, {"authorization": ""}, {"authorization": "Bearer "}, {"authorization": f"Basic {TOKEN}"}]
    bad += [{"authorization": f"Bearer {TOKEN}x"}]
    bad += [signed(now, "x" * 32), signed(now, body=b"{}"), signed(now - 400), signed(now + 400), no_time]
    bad += [signed(now) | {"x-signature-timestamp": str(int(now) + 1)}, signed(now) | {"x-signature-timestamp": "1e9"}]
    bad += [{"x-pagerduty-signature": sign_pagerduty(PAGERDUTY, BODY)}, signed(now, PAGERDUTY), signed(now) | {"authorization": "Bearer x"}]
    codes = [world.post(BODY, headers=h).status_code for h in bad]
    assert set(codes) <= {401, 429}
    assert codes[0] == 401
    assert world.placed == []
    assert world.post(b"{}", "pagerduty", {"x-pagerduty-signature": "v1="}).status_code in (401, 429)
    assert world.post(BODY).status_code == 200  # refused ones never close the door for the others


def test_a_signed_request_sent_again_has_no_second_effect(world: World) -> None:
    headers = signed(time.time())
    assert world.post(BODY, headers=headers).status_code == 200
    n = len(world.placed)
    assert "note" in world.post(BODY, headers=headers).json()
    assert len(world.placed) == n


def test_a_signed_request_that_was_not_taken_may_come_again(world: World) -> None:
    headers = signed(time.time())
    world.down = True
    answer = world.post(BODY, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    world.down = False
    assert world.post(BODY, headers=headers).json()["alerts"][0]["outcome"] == "joined"


def test_limits(tmp_path: Path) -> None:
    small = World(tmp_path, largest_body=2048, per_second=0.001, burst=2)
    with patch.object(module, "place", small.place), quiet_events(), own_clock():
        assert small.post(b"x" * 3000).status_code == 413
        chunks = iter([b"x" * 1000] * 5)
        assert small.client.post("/alerts/generic", content=chunks, headers=BEARER).status_code == 413
        assert [small.post(BODY).status_code for _ in range(3)] == [200, 200, 503]
        assert {small.post(BODY, headers={}).status_code for _ in range(30)} == {401, 429}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"host": EVERYWHERE}, "without authentication"),
    ({"host": EVERYWHERE, "open": True, "secrets": ALL}, "without authentication"),
    ({"host": "192.0.2.1", "secrets": ALL}, "plain HTTP"),
    ({"host": "::", "secrets": ALL, "tls_cert": "c"}, "both"),
    ({}, "no secret"),
    ({"secrets": Secrets(token="short")}, "shorter"),
    ({"secrets": Secrets(pagerduty="1")}, "PagerDuty secret is shorter"),
]


@pytest.mark.parametrize(("given_", "says"), REFUSED)
def test_it_refuses_to_listen_unsafely(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        checked(GatewaySettings(**given_))


@pytest.mark.parametrize(
    "good",
    [
        {"secrets": ALL},
        {"open": True, "host": "::1"},
        {"host": EVERYWHERE, "secrets": ALL, "behind_tls": True},
        {"host": EVERYWHERE, "secrets": ALL, "tls_cert": "c", "tls_key": "k"},
    ],
)
def test_it_listens_where_that_is_safe(good: dict[str, Any]) -> None:
    assert checked(GatewaySettings(**good))
    assert TOKEN not in repr(GatewaySettings(**good))


def test_health_and_metrics_need_no_secret_and_tell_none(world: World) -> None:
    world.post(payload([firing("node-a", "ToyX")]))
    with patch("deployments.gateway.app.read_health", side_effect=ConnectError("no server behind it")):
        text = world.client.get("/metrics").text
    assert "gpu_runbooks_server_up 0.0" in text
    assert 'gpu_runbooks_gateway_alerts_total{outcome="joined",source="alertmanager"}' in text
    assert TOKEN not in text
    assert world.client.get("/healthz").status_code == 200
    assert world.client.get("/openapi.json").status_code == 404


def test_health_says_whether_prefect_answers(tmp_path: Path) -> None:
    """It is said and not decided upon: alerts are taken and kept for a server that comes back."""
    for make, says in (KINDS["refused"], KINDS["hanging"], (partial(answering, FINE, FINE), "answers")):
        with make() as api, temporary_settings({PREFECT_API_URL: api}):
            began = time.monotonic()
            found = World(tmp_path).client.get("/healthz")
            assert time.monotonic() - began < 5
        assert found.status_code == 200
        assert found.json()["prefect"].startswith("does not answer" if says.startswith("does not") else says[:16])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
texts = st.text(max_size=30) | st.sampled_from(["node-a", "Toy", "a\r\nfake log line", "\x1b[31m", "{{7*7}}", "; rm -rf /", "\ud800"])
near_alerts = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["firing", "resolved"]) | json_values,
        "labels": st.dictionaries(st.sampled_from(["alertname", "node", "x"]) | texts, texts, max_size=5) | json_values,
        "annotations": json_values,
        "startsAt": st.sampled_from(["2026-01-31T12:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]) | json_values,
        "starts_at": st.sampled_from(["2026-01-31T12:00:00Z"]) | json_values,
        "fingerprint": texts | json_values,
        "name": texts,
    },
)
bodies = (
    st.binary(max_size=200)
    | json_values.map(lambda v: json.dumps(v).encode())
    | st.lists(near_alerts, max_size=3).map(lambda a: json.dumps({"alerts": a}).encode())
    | near_alerts.map(lambda a: json.dumps({"event": {"event_type": "incident.triggered", "data": a}}).encode())
)
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies, source=st.sampled_from(["alertmanager", "grafana", "pagerduty", "generic"]))
def test_no_body_breaks_it_or_writes_into_the_log(
    world: World, caplog: pytest.LogCaptureFixture, body: bytes, source: str
) -> None:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        answer = world.post(body, source)
    assert answer.status_code in (200, 400, 422), answer.text
    assert answer.json()
    assert all(r.getMessage().isprintable() for r in caplog.records)
    assert all(p.target == "node-a" for p in world.placed)
    assert all(str(p.parameters["trigger"]).isprintable() and p.alert.isprintable() for p in world.placed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=st.dictionaries(
        st.sampled_from(["authorization", "x-signature", "x-signature-timestamp", "x-pagerduty-signature", "content-length"]),
        header_values.map(lambda t: t.encode("latin-1")),
        max_size=4,
    ),
    source=st.sampled_from(["alertmanager", "pagerduty"]),
)
def test_no_header_opens_the_door(world: World, headers: dict[str, bytes], source: str) -> None:
    headers.pop("content-length", None)
    answer = world.client.post(f"/alerts/{source}", content=BODY, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code in (401, 429)
    assert world.placed == []


def test_what_still_fires_is_asked_about_again_after_some_time(world: World) -> None:
    """The memory of one gateway must not outlive the answer: a run may have come to none meanwhile."""
    alert = payload([firing("node-a", start=ago(10))])
    for _ in range(3):
        assert world.post(alert).status_code == 200
    assert len(world.placed) == 1
    assert world.placed[0].repeat_s == 3600
    with patch.object(module, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 3601)):
        for _ in range(3):
            assert world.post(alert).status_code == 200
    assert len(world.placed) == 2


def test_the_page_of_each_alert_about_the_engine_is_served(tmp_path: Path) -> None:
    """What `runbook_url` of the rules leads to, as text; nothing else of the folder, and no path."""
    client = World(tmp_path).client
    page = client.get("/alert-pages/RunbooksLockHeldLong")
    assert page.status_code == 200
    assert page.text.startswith("# RunbooksLockHeldLong: ")
    assert page.headers["content-type"].startswith("text/plain")
    assert [client.get(f"/alert-pages/{n}").status_code for n in ("Other", "..%2Falerts.yaml", "RunbooksFrozen.md")] == [404] * 3


def test_health_is_bad_while_runs_cannot_begin_here(tmp_path: Path) -> None:
    world = World(tmp_path, workers=True)
    assert world.client.get("/healthz").json()["warm"] is True
    runner = world.app.state.service.runner
    runner._down_since = time.monotonic() - 3600  # no warm process for an hour
    found = world.client.get("/healthz")
    assert (found.status_code, found.json()["warm"]) == (503, False)


def test_refusals_are_counted_by_code(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs that ended here, from the run's label; every code is there from the start, and no other word becomes one."""
    ended = SimpleNamespace(state=None, labels={"outcome": "refused", "refused": "frozen,policy,<script>"})
    monkeypatch.setattr("flows.store.read_run", lambda _run: ended)
    world.app.state.service._ended("a-run", True)
    text = world.client.get("/metrics").text
    counted = dict(re.findall(r'gpu_runbooks_gateway_refusals_total\{code="([^"]*)"\} ([\d.]+)', text))
    assert counted == {code.value: "1.0" if code in (RefusalCode.FROZEN, RefusalCode.POLICY) else "0.0" for code in RefusalCode}
