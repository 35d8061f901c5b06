"""The quarantine mark on a node: written whole, kept, taken away only if it is ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.plan import Step
from tasks.context import Refused
from tasks.remediation.quarantine import quarantine_node, release_node
from tasks.transport.base import TransportError
from tests.support.gpu_node import context


def step(path: Path, **change: Any) -> Step:
    """A mark at `path`."""
    args = {"node": "node-a", "reason": "gpu-off-the-bus: GPU 3", "path": str(path)} | change
    return Step(kind="quarantine-node", owner="node-a", args=args, commands=("#",), effect="marked")


def test_written_once_kept_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "quarantine.json"
    assert "mark written" in quarantine_node(step(path), context()).said[0]
    first = path.read_text()
    mark = json.loads(first)
    assert (mark["node"], mark["by"], mark["reason"]) == ("node-a", "gpu-runbooks", "gpu-off-the-bus: GPU 3")
    assert "already" in quarantine_node(step(path, reason="other"), context()).said[0]
    assert path.read_text() == first
    assert list(path.parent.iterdir()) == [path]
    assert "is gone" in release_node(step(path), context()).said[0]
    assert "there is no mark" in release_node(step(path), context()).said[0]


@pytest.mark.parametrize("text", ['{"by": "ops-team"}', "not json", "[]"])
def test_somebody_elses_mark_is_neither_overwritten_nor_removed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "q.json"
    path.write_text(text)
    for act in (quarantine_node, release_node):
        with pytest.raises(Refused):
            act(step(path), context())
    assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError):
        quarantine_node(step(tmp_path / "file" / "q.json"), context())
