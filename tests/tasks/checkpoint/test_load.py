"""The last proof: the node's torch loads the chosen checkpoint in a child without network, and may refuse it."""

import os
import sys
from pathlib import Path

import pytest

from runbooks.core.reading import Known
from runbooks.core.verdict import State
from tests.support.ckpt_files import need
from tests.support.ckpt_fleet import Shelf, context, folder, look


@pytest.fixture(autouse=True)
def _torch_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def test_whole_ones_load_without_network(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(tmp_path, 100, 200)
    seen, got = look(context(folder("nvme", tmp_path), options={"load": "yes"}))
    assert isinstance(seen.load, Known), seen.load
    assert seen.load.value.ok, seen.load.value.error
    assert seen.load.value.alone, "no network"
    assert seen.load.value.tensors == 13
    assert any(x.startswith("Last proof: torch ") for x in got.do_now)
    assert got.state is State.HEALTHY
    _, got = look(context(folder("nvme", tmp_path)))
    assert any("option load=yes" in x for x in got.do_now), "offered, not done"


@pytest.mark.parametrize("form", ["dcp", *(pytest.param(f, marks=pytest.mark.soak) for f in ("sharded", "safetensors"))])
def test_folders(shelf: Shelf, tmp_path: Path, form: str) -> None:
    from tests.support.ckpt_files import save

    save(form, tmp_path / "step_100", step=100)
    seen, _ = look(context(folder("nvme", tmp_path), naming="step_{step}", options={"load": "yes"}))
    assert isinstance(seen.load, Known), seen.load
    assert seen.load.value.ok, seen.load.value.error


def test_refused_types_and_what_runs_code(tmp_path: Path) -> None:
    torch, numpy = need("torch"), need("numpy")
    path = tmp_path / "checkpoint_step_100.pt"
    torch.save({"model": {"w": torch.ones(40)}, "n": numpy.float64(3.0), "step": 100}, path)
    _, got = look(context(folder("nvme", tmp_path), options={"load": "yes"}))
    assert [(c.slug, c.certainty.value) for c in got.causes] == [("loader-weights-only", "confirmed")], got.causes
    torch.save({"model": {"w": torch.ones(40)}, "x": os.system, "step": 100}, path)
    seen, got = look(context(folder("nvme", tmp_path), options={"load": "yes"}))
    assert not isinstance(seen.load, Known), "never loaded"
    assert "runs-code" in {c.slug for c in got.causes}
