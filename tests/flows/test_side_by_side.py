"""The progress of a nightly: shown live, at a cost that does not grow with the fleet, and without harm where it cannot be shown."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType

from flows import store
from flows.sweep import side_by_side
from flows.sweep.side_by_side import EVERY_S, NodesDone
from tests.support.engine_rig import Rig

A_NODE_S = 0.1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every question to the server, while each node takes A_NODE_S."""
    found: list[Any] = []
    now = [0.0]

    def ask(question: Any, patience_s: float) -> Any:
        found.append(question.keywords["artifact"])
        return SimpleNamespace(id=uuid4())

    def monotonic() -> float:
        now[0] += A_NODE_S / 2  # it is looked at twice a node, or once
        return now[0]

    monkeypatch.setattr(store, "ask", ask)
    monkeypatch.setattr(side_by_side, "current_run_id", lambda: str(uuid4()))
    monkeypatch.setattr(side_by_side, "time", SimpleNamespace(monotonic=monotonic))
    return found


@pytest.mark.parametrize("nodes", [1, 7, 1000])
def test_it_is_written_every_few_seconds_whatever_the_fleet_is(nodes: int, asked: list[Any]) -> None:
    progress = NodesDone(nodes)
    for _ in range(nodes):
        progress.one_more()
    assert len(asked) <= 2 + nodes * A_NODE_S / EVERY_S
    assert (asked[-1].data, asked[-1].description) == (100.0, f"{nodes} of {nodes} nodes looked at")
    assert [a.data for a in asked] == sorted(a.data for a in asked)


def test_a_server_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise ConnectionError("a secret")

    monkeypatch.setattr(store, "ask", gone)
    monkeypatch.setattr(side_by_side, "current_run_id", lambda: str(uuid4()))
    progress = NodesDone(2)
    progress.one_more()
    progress.one_more()
    assert progress.done == 2
    assert "the progress is not shown: ConnectionError" in caplog.text
    assert "a secret" not in caplog.text


def test_a_nightly_ends_at_a_hundred_percent(rig: Rig, tmp_path: Path) -> None:
    w, id_file = rig.world(), tmp_path / "id"
    files = {"fleet": str(w.fleet), "out": str(tmp_path / "reports")}
    rig.wait(rig.start({"do": "run", "slug": "nightly", "parameters": files, "id_file": str(id_file)}))
    wanted = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[id_file.read_text()]), type=ArtifactFilterType(any_=["progress"])
    )
    (found,) = store.ask(lambda c: c.read_artifacts(artifact_filter=wanted))
    assert (float(str(found.data)), found.description) == (100.0, "1 of 1 nodes looked at")
