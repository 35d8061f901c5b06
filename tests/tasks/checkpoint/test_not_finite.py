"""One NaN among many numbers is found in every format and floating-point type, and none is found where there is none."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.checkpoint.parsers.content import check_content
from tests.support.ckpt_files import blobs, need, read_tree, spec_for

TYPES = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
FORMS = ("torch-zip", "torch-legacy", "dcp", "safetensors")


def write(form: str, folder: Path, tensors: dict[str, Any]) -> None:
    torch = need("torch")
    folder.mkdir()
    if form == "safetensors":
        from safetensors.torch import save_file

        save_file(tensors, folder / "model.safetensors")
    elif form == "dcp":
        dcp: Any = __import__("torch.distributed.checkpoint", fromlist=["save"])
        dcp.save({"model": tensors}, storage_writer=dcp.FileSystemWriter(folder), no_dist=True)
    else:
        torch.save({"model": tensors}, folder / "ckpt.pt", _use_new_zipfile_serialization=form == "torch-zip")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_one_nan(tmp_path: Path, form: str) -> None:
    torch = need("torch")
    spec = spec_for("safetensors")._replace(finite=True)
    for bad in (None, *TYPES):
        tensors = {}
        for name in TYPES:
            values = torch.ones(3001)
            values[2000] = float("nan") if name == bad else 1.0
            tensors[name] = values.to(getattr(torch, name))
        folder = tmp_path / str(bad)
        write(form, folder, tensors)
        found = check_content(blobs(read_tree(folder)), spec)
        assert found.faults == []
        said = [s.detail for s in found.suspects if s.kind == "not-finite"]
        assert [bool(said), len(said)] == [bad is not None, int(bad is not None)], (bad, found.suspects, found.notes)
        assert bad is None or (f"{bad}:" in said[0] and "1 NaN" in said[0]), said
