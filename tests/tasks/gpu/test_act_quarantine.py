"""The quarantine mark on a node: written whole, and kept."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.plan import Step
from tasks.context import ActionRefused
from tasks.gpu.act_quarantine import quarantine_node
from tasks.gpu.probes.quarantine import main
from tasks.transport.base import TransportError
from tests.support.gpu_node import context
from tests.support.racing import Steps, every_step, process, writing_at


def step(path: Path, **change: Any) -> Step:
    """A mark at `path`."""
    args = {"node": "node-a", "reason": "gpu-off-the-bus: GPU 3", "path": str(path)} | change
    return Step(kind="quarantine-node", owner="node-a", args=args, commands=("#",), effect="marked")


def test_written_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "quarantine.json"
    assert "mark written" in quarantine_node(step(path), context()).said[0]
    first = path.read_text()
    mark = json.loads(first)
    assert (mark["node"], mark["by"], mark["reason"]) == ("node-a", "gpu-runbooks", "gpu-off-the-bus: GPU 3")
    assert "already" in quarantine_node(step(path, reason="other"), context()).said[0]
    assert path.read_text() == first
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("text", ['{"by": "ops-team"}', "not json", "[]"])
def test_somebody_elses_mark_is_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "q.json"
    path.write_text(text)
    with pytest.raises(ActionRefused):
        quarantine_node(step(path), context())
    assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError):
        quarantine_node(step(tmp_path / "file" / "q.json"), context())


THEIRS = '{"by": "ops-team"}'


def ask(path: Path) -> dict[str, Any]:
    return {"path": str(path), "node": "node-a", "reason": "r", "at": "now"}


def write_theirs(path: Path) -> None:
    """As ops do: whole, by renaming."""
    path.parent.mkdir(exist_ok=True)
    path.with_name("ops").write_text(THEIRS)
    path.with_name("ops").replace(path)


def test_somebody_marks_it_before_every_step(tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    path = folder / "q.json"

    def run(at: int) -> Steps:
        shutil.rmtree(folder, ignore_errors=True)
        with writing_at(folder, at, lambda: write_theirs(path)) as steps:
            got = main(ask(path))
        if steps.wrote:
            assert path.read_text() == THEIRS, f"{at}: {got}"
            assert [p.name for p in folder.iterdir()] == [path.name]
        return steps

    assert every_step(folder, run) >= 3


MARKS = """
import os, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    with open(sys.argv[1] + ".ops", "w") as f:
        f.write(sys.argv[2])
    try:
        os.link(sys.argv[1] + ".ops", sys.argv[1])
        print("marked", flush=True)
    except OSError:
        print("taken", flush=True)
    os.unlink(sys.argv[1] + ".ops")
"""


@pytest.mark.parametrize("tries", [30, pytest.param(300, marks=pytest.mark.soak)])
def test_somebody_marks_it_at_the_same_time(tmp_path: Path, tries: int) -> None:
    """One of the two has marked it, and both know who."""
    path = tmp_path / "q.json"
    with process(MARKS, str(path), THEIRS) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        for n in range(tries):
            p.stdin.write(f"{0.0005 * n / tries}\n")
            p.stdin.flush()
            got = main(ask(path))
            theirs = p.stdout.readline() == "marked\n"
            assert (path.read_text() == THEIRS) is theirs
            assert ("refused" in got) is theirs
            path.unlink()
