"""An end that is older than the newest beginning of its alert is an old message that came again: it ends nothing."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, FlowRunInput

from deployments.gateway.auth import sign_pagerduty
from flows import store
from flows.alert_notes import OVER, TOOK, Notes, resolved
from tests.gateway.test_doors import FLEET, PAGERDUTY, World, quiet_events
from tests.support.engine_rig import Rig
from tests.support.gateway import ago, firing, payload

Restart = tuple[str, Callable[[], World]]
Said = Callable[[str, str, datetime, datetime | None], dict[str, Any]]


@pytest.fixture
def gateways(rig: Rig, tmp_path: Path, nothing_left: None) -> Iterator[Restart]:
    """A node, and gateways for it on the rig's server: each new one is one after a restart, it remembers nothing."""
    target = f"o{uuid4().hex[:8]}"

    def made() -> World:
        world = World(tmp_path)
        (tmp_path / "fleet.yaml").write_text(FLEET.replace("node-a", target))
        return world

    with quiet_events():
        yield target, made


def send(world: World, source: str, body: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(body).encode()
    headers = {"x-pagerduty-signature": sign_pagerduty(PAGERDUTY, data)} if source == "pagerduty" else None
    answer = world.post(data, source, headers)
    assert answer.status_code == 200, answer.text
    [said] = answer.json()["alerts"]
    return dict(said)


def pagerduty(kind: str, node: str, began: datetime, at: datetime | None) -> dict[str, Any]:
    """The recorded event about that node: an incident that is reopened, or resolved again, keeps its `created_at`."""
    body = json.loads((Path(__file__).parent / "payloads/pagerduty.json").read_text())
    incident = {"id": f"I{node}", "title": f"Toy incident node={node}", "created_at": ago(4000).isoformat(timespec="seconds")}
    body["event"] |= {"id": uuid4().hex, "event_type": f"incident.{kind}", "occurred_at": (at or began).isoformat()}
    body["event"]["data"] |= incident
    return dict(body)


def alertmanager(kind: str, node: str, began: datetime, at: datetime | None) -> dict[str, Any]:
    end = {"status": "resolved", "endsAt": at.isoformat()} if at else {}
    return payload([firing(node, start=began) | end])


def generic(kind: str, node: str, began: datetime, at: datetime | None) -> dict[str, Any]:
    end = {"status": "resolved", "ends_at": at.isoformat()} if at else {}
    return {"name": "ToySick", "labels": {"node": node}, "starts_at": began.isoformat()} | end


def generic_without(kind: str, node: str, began: datetime, at: datetime | None) -> dict[str, Any]:
    return {k: v for k, v in generic(kind, node, began, at).items() if k != "ends_at"}


@pytest.mark.parametrize("said", [pagerduty, alertmanager, generic, generic_without])
def test_an_old_end_that_is_sent_again_after_a_restart_ends_nothing(gateways: Restart, said: Said) -> None:
    source = "generic" if "generic" in said.__name__ else said.__name__
    node, restarted = gateways
    world = restarted()
    first, second = ago(3600), ago(600)
    send(world, source, said("triggered", node, first, None))
    old_end = said("resolved", node, first, ago(1800))
    assert send(world, source, old_end)["outcome"] == "resolved"
    begun = send(world, source, said("reopened", node, second, None))
    assert begun["outcome"] == "joined"
    run = store.read_run(begun["run"])
    assert not resolved(run)
    assert send(restarted(), source, old_end)["outcome"] == "old-end"
    assert not resolved(run)
    assert send(restarted(), source, said("resolved", node, second, ago(60)))["outcome"] == "resolved"
    assert resolved(run)


def test_an_old_end_does_not_end_the_next_run(gateways: Restart) -> None:
    """Also where the beginning stands in the labels that a run is created with."""
    node, restarted = gateways
    world = restarted()
    begun = send(world, "alertmanager", alertmanager("triggered", node, ago(600), None))
    assert begun["outcome"] == "started"
    assert send(world, "alertmanager", alertmanager("resolved", node, ago(3600), ago(1800)))["outcome"] == "old-end"
    assert not resolved(store.read_run(begun["run"]))


def note(kind: str, i: int, said: str) -> FlowRunInput:
    return FlowRunInput.model_construct(flow_run_id=uuid4(), key=f"{kind}m-{i}", value=f"m 2026-01-01T00:00:00+00:00 {said}")


def test_of_an_end_and_a_newer_beginning_at_one_moment_the_beginning_counts() -> None:
    """Whichever of two gateways the server served first."""
    run = FlowRun.model_construct(flow_id=uuid4(), labels={}, tags=["alert"])
    first, end, again = (f"{word}=2026-01-01T0{hour}:00:00+00:00 Toy" for word, hour in (("since", 1), ("ended", 2), ("since", 3)))
    for order in ((TOOK + "1", OVER + "2", TOOK + "3"), (TOOK + "1", TOOK + "3", OVER + "2")):
        said = {"1": first, "2": end, "3": again}
        notes = [note(o[:-1], int(o[-1]), said[o[-1]]) for o in order]
        assert Notes(run, notes).over == {"m": False}
        later = note(OVER, 9, "ended=2026-01-01T04:00:00+00:00")
        assert Notes(run, [*notes, later]).over == {"m": True}


def test_notes_of_before_count_as_they_did() -> None:
    run = FlowRun.model_construct(flow_id=uuid4(), labels={"alert.k": "m 2026-01-01T00:00:00+00:00 since=hot"}, tags=["alert"])
    assert Notes(run, [note(OVER, 1, "")]).over == {"m": True}
    assert Notes(run, [note(OVER, 1, ""), note(TOOK, 2, "Toy")]).over == {"m": False}
