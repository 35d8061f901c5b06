"""The commit marker of a torch distributed checkpoint, `.metadata`, as data. Python 3.8, standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from runbooks.checkpoint.parsers.machine import Beyond, Call, PickleUnreadable
from runbooks.checkpoint.parsers.pickled import load
from runbooks.checkpoint.parsers.tensors import judge_globals
from runbooks.checkpoint.parsers.types import Bad, Blob, StructureCheck

MARKER = ".metadata"
LARGEST_MARKER = 64 << 20
KNOWN = frozenset(
    f"torch.distributed.checkpoint.{name}"
    for name in (
        "metadata.Metadata", "metadata.TensorStorageMetadata", "metadata.TensorProperties",
        "metadata.BytesStorageMetadata",
        "metadata.ChunkStorageMetadata", "metadata.MetadataIndex", "metadata.StorageMeta",
        "metadata._MEM_FORMAT_ENCODING",
        "filesystem._StorageInfo", "filesystem._StoragePrefix",
    )
) | {"builtins.getattr", "pathlib.PosixPath", "pathlib.Path", "pathlib._local.PosixPath"}  # fmt: skip


class Slice(NamedTuple):
    """Where one tensor chunk or object lies."""

    fqn: str
    at: tuple[int, ...]  # offset of the chunk in its tensor
    file: str
    offset: int
    length: int
    plain: bool  # no transform (compression) is applied


class Marker(NamedTuple):
    """What `.metadata` says."""

    tensors: dict[str, tuple[str, tuple[int, ...], tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]]]
    objects: frozenset[str]
    slices: tuple[Slice, ...]
    save_id: str


def read_marker(folder: Mapping[str, Blob], check: StructureCheck) -> Marker:
    """`.metadata` as data. Raises Bad."""
    blob = folder.get(MARKER)
    if blob is None:
        raise Bad("metadata-missing", "no commit marker")
    if blob.size > LARGEST_MARKER:
        raise Bad("beyond-reader", f"{MARKER} has {blob.size} bytes, at most {LARGEST_MARKER} are read")
    if blob.size == 0:
        raise Bad("metadata-damaged", f"{MARKER} has 0 bytes")
    raw = blob.read(0, blob.size)
    check.read_bytes += len(raw)
    check.fingerprint = hashlib.sha256(raw).hexdigest()[:32]
    try:
        root, end, names = load(raw)
        if end != len(raw):
            raise PickleUnreadable(f"it ends at {end} of {len(raw)} bytes")
        judge_globals(check, names, KNOWN)
        return _marker(root)
    except Beyond as e:
        raise Bad(e.kind, f"{MARKER} of {len(raw)} bytes: {e}") from e
    except (PickleUnreadable, KeyError, TypeError, ValueError, AttributeError) as e:
        raise Bad("metadata-damaged", f"{MARKER} of {len(raw)} bytes cannot be read: {e}") from e


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, Call) or not isinstance(value.state, dict):
        raise ValueError(f"expected a record, found {type(value).__name__}")
    return value.state


def _size(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    inner = value.args[0] if isinstance(value, Call) else value
    if not isinstance(inner, tuple) or not all(isinstance(n, int) and n >= 0 for n in inner):
        raise ValueError("a size that is none")
    return inner


def _marker(root: Any) -> Marker:
    top = _fields(root)
    tensors, objects = {}, set()
    for fqn, entry in top["state_dict_metadata"].items():
        if entry.name.endswith("BytesStorageMetadata"):
            objects.add(fqn)
            continue
        state = _fields(entry)
        chunks = tuple((_size(_fields(c)["offsets"]), _size(_fields(c)["sizes"])) for c in state["chunks"])
        tensors[fqn] = (_dtype(state["properties"]), _size(state["size"]), chunks)
    slices = tuple(_slice(k, v) for k, v in top["storage_data"].items())
    meta = top.get("storage_meta")
    save = meta.state.get("save_id") if isinstance(meta, Call) and isinstance(meta.state, dict) else None
    return Marker(tensors, frozenset(objects), slices, save if isinstance(save, str) else "")


def _dtype(properties: Any) -> str:
    state = properties.state if isinstance(properties, Call) else None
    first = (
        state[0]
        if isinstance(state, tuple) and state
        else (state or {}).get("dtype")
        if isinstance(state, dict)
        else None
    )
    return str(getattr(first, "name", ""))


def _slice(key: Any, value: Any) -> Slice:
    index, info = _fields(key), _fields(value)
    path, offset, length = info["relative_path"], info["offset"], info["length"]
    if (
        not isinstance(path, str)
        or path.startswith("/")
        or ".." in path
        or not isinstance(offset, int)
        or not isinstance(length, int)
    ):
        raise ValueError("a slice that lies nowhere")
    return Slice(
        str(index["fqn"]),
        _size(index.get("offset")),
        path,
        offset,
        length,
        not info.get("transform_descriptors"),
    )
