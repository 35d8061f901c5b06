"""Prefect-native: the gateway tells Prefect what became of an alert, and an automation starts a runbook from any event."""

import time
from typing import Any

from prefect.events import emit_event
from prefect.states import Cancelled

from deployments.automation import start_on_event
from flows import store
from tests.support.gateway import firing
from tests.support.gateway_fleet import GatewayFleet
from tests.support.set_state import set_state


def events(target: str) -> set[str]:
    """Names of our events about that target."""
    wanted: dict[str, Any] = {"filter": {"event": {"prefix": ["gpu-runbooks."]}}, "limit": 50}
    found = store.ask(lambda c: c.request("POST", "/events/filter", json=wanted).json())
    return {e["event"] for e in found["events"] if e["resource"].get("gpu-runbooks.target") == target}


def test_events_and_an_automation(fleet: GatewayFleet) -> None:
    [node] = fleet.take(1, mode="diagnose")
    event = f"test.sick.{node}"
    for _ in range(2):  # again: replaced
        automation = start_on_event("zombie-gpu", event, str(fleet.file))
    fleet.gateway.alert(firing(node))
    deadline = time.monotonic() + 120
    while events(node) != {"gpu-runbooks.alert.started", "gpu-runbooks.run.sick"}:
        assert time.monotonic() < deadline, events(node)
        time.sleep(0.2)
    while len(fleet.runs(node)) < 2:  # automations are loaded from time to time; an event may be lost
        assert time.monotonic() < deadline
        emit_event(event=event, resource={"prefect.resource.id": f"x.{node}", "gpu-runbooks.target": node})
        time.sleep(1)
    by_event = next(r for r in fleet.runs(node) if "alert" not in r.tags)
    assert by_event.parameters["mode"] == "diagnose"
    assert by_event.parameters["trigger"] == f"event {event}"
    automation.delete()
    for run in fleet.runs(node):  # each event started one: none is left for the tests that come
        if run.state and not run.state.is_final():
            set_state(run.id, Cancelled(message="the test is over"))
