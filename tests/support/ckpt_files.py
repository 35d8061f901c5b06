"""Whole checkpoints written by real torch and safetensors, as relative name -> bytes."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

from runbooks.checkpoint.parsers.content import check_content
from runbooks.checkpoint.parsers.sets import CheckpointSpec, check_set
from runbooks.checkpoint.parsers.types import Blob, StructureCheck

Files = dict[str, bytes]
FORMATS = ("torch-zip", "torch-legacy", "safetensors", "safetensors-sharded", "dcp", "sharded")


def need(module: str) -> Any:
    """The module; a test that needs it fails with a line that says what to install."""
    try:
        return __import__(module)
    except ImportError as e:  # pragma: no cover
        raise AssertionError(f"install {module} (python -m pip install torch==2.13.0 numpy safetensors)") from e


def state(step: int, seed: int = 0, width: int = 64) -> dict[str, Any]:
    """A small training state: weights, Adam moments, step."""
    torch = need("torch")
    g = torch.Generator().manual_seed(seed * 1000 + step)

    def weight(*s: int) -> Any:
        return torch.randn(*s, generator=g)

    model = {f"layer{i}.weight": weight(width, 33) for i in range(4)} | {"head.bias": weight(7).bfloat16()}
    moments = {i: {"exp_avg": weight(width, 33), "step": torch.tensor(float(step))} for i in range(4)}
    return {
        "model_state_dict": model,
        "optimizer": {"state": moments, "param_groups": [{"lr": 0.1, "params": [0, 1, 2, 3]}]},
        "step": step, "world_size": 4,
    }  # fmt: skip


def read_tree(folder: Path) -> Files:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write_tree(folder: Path, files: Files) -> None:
    """Writes the files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def save(form: str, folder: Path, step: int = 100, seed: int = 0, width: int = 64) -> Files:
    """One whole checkpoint of that format, written into `folder` by the real library."""
    torch = need("torch")
    folder.mkdir(parents=True, exist_ok=True)
    data = state(step, seed, width)
    if form == "torch-zip":
        torch.save(data, folder / "ckpt.pt")
    elif form == "torch-legacy":
        torch.save(data, folder / "ckpt.pt", _use_new_zipfile_serialization=False)
    elif form == "sharded":
        for rank in range(4):
            torch.save(state(step, seed * 10 + rank, width), folder / f"rank_{rank}.pt")
    elif form == "dcp":
        dcp: Any = __import__("torch.distributed.checkpoint", fromlist=["save"])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            writer = dcp.FileSystemWriter(folder, single_file_per_rank=False, thread_count=2)
            dcp.save(data, storage_writer=writer, no_dist=True)
    else:
        _safetensors(form, folder, data, step)
    return read_tree(folder)


def _safetensors(form: str, folder: Path, data: dict[str, Any], step: int) -> None:
    need("safetensors")
    from safetensors.torch import save_file

    model, meta = data["model_state_dict"], {"step": str(step)}
    if form == "safetensors":
        save_file(model, folder / "model.safetensors", metadata=meta)
        return
    names = sorted(model)
    weights: dict[str, str] = {}
    for i, part in enumerate((names[:3], names[3:]), 1):
        file = f"model-0000{i}-of-00002.safetensors"
        save_file({n: model[n] for n in part}, folder / file, metadata=meta)
        weights |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def with_manifest(files: Files) -> Files:
    """The same files and a manifest with their sizes and SHA-256."""
    entries = {n: {"size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()}
    return files | {"manifest.json": json.dumps({"files": entries}).encode()}


def bytes_blob(name: str, data: bytes) -> Blob:
    """A blob in memory."""
    return Blob(name, len(data), lambda at, n: data[at : at + n])


def blobs(files: Files) -> dict[str, Blob]:
    """As blobs in memory."""
    return {n: bytes_blob(n, d) for n, d in files.items()}


def judge(files: Files, spec: CheckpointSpec) -> StructureCheck:
    """Structure, then content where the structure holds."""
    check = check_set(blobs(files), spec)
    if check.whole:
        content = check_content(blobs(files), spec)
        check.faults.extend(content.faults)
        check.notes.extend(content.notes)
    return check


def spec_for(form: str, step: int = 100) -> CheckpointSpec:
    """What the fleet file would say of it."""
    if form == "sharded":
        return CheckpointSpec(step=step, world_size=4, ranks="rank_{rank}.pt", required_keys=("model_state_dict",))
    required = ("model_state_dict",) if form.startswith(("torch", "dcp")) else ()
    return CheckpointSpec(step=step, required_keys=required)
