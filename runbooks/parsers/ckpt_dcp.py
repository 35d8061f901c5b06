"""Structure of a torch distributed checkpoint folder (`.metadata`, `__rank_n.distcp`). Python 3.8, standard library
only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from runbooks.parsers.ckpt_machine import Call, Unreadable
from runbooks.parsers.ckpt_pickle import load
from runbooks.parsers.ckpt_tensors import DTYPE, judge_globals
from runbooks.parsers.ckpt_torch import check_torch_zip, read_object
from runbooks.parsers.ckpt_types import Bad, Blob, Check

MARKER, MARKER_TMP = ".metadata", ".metadata.tmp"
SHARD = re.compile(r"__(\d+)_(\d+)\.distcp$")
STEP_NAMES = ("step", "global_step", "iteration", "iter", "num_steps")
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


def is_dcp(names: Mapping[str, Any]) -> bool:
    """The folder holds a distributed checkpoint, or what is left of one."""
    return MARKER in names or MARKER_TMP in names or any(SHARD.match(n) for n in names)


def check_dcp(folder: Mapping[str, Blob]) -> Check:
    """Commit marker, shards, slices that tile every shard and every tensor; of each shard, the last slice is opened."""
    check = Check(format="dcp")
    try:
        marker = read_marker(folder, check)
        _shards(check, folder, marker)
        _tensors(check, marker)
        _steps(check, folder, marker)
        check.checksummed = all(s.plain for s in marker.slices)
    except Bad as e:
        check.fault(e.kind, e.detail, MARKER)
    return check


def read_marker(folder: Mapping[str, Blob], check: Check) -> Marker:
    """`.metadata` as data. Raises Bad."""
    blob = folder.get(MARKER)
    if blob is None:
        left = f"only {MARKER_TMP} is there" if MARKER_TMP in folder else f"{MARKER} is not there"
        raise Bad("metadata-missing", f"{left}: the save was not finished")
    if blob.size == 0 or blob.size > LARGEST_MARKER:
        raise Bad("metadata-damaged", f"{MARKER} has {blob.size} bytes")
    raw = blob.read(0, blob.size)
    check.read_bytes += len(raw)
    check.fingerprint = hashlib.sha256(raw).hexdigest()[:32]
    try:
        root, end, names = load(raw)
        if end != len(raw):
            raise Unreadable(f"it ends at {end} of {len(raw)} bytes")
        judge_globals(check, names, KNOWN)
        return _marker(root)
    except (Unreadable, KeyError, TypeError, ValueError, AttributeError) as e:
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


def _shards(check: Check, folder: Mapping[str, Blob], marker: Marker) -> None:
    by_file: dict[str, list[Slice]] = {}
    for s in marker.slices:
        by_file.setdefault(s.file, []).append(s)
    for file, slices in sorted(by_file.items()):
        blob = folder.get(file)
        if blob is None:
            check.fault("shard-missing", f"{file} is not there ({len(slices)} pieces lie in it)", file)
            continue
        _tile(check, blob, sorted(slices, key=lambda s: s.offset))
    loose = sorted(n for n in folder if SHARD.match(n) and n not in by_file)
    if loose:
        check.notes.append(f"{len(loose)} shards that the commit marker does not name, e.g. {loose[0]}")
    check.scalars["shards"] = len(by_file)


def _tile(check: Check, blob: Blob, slices: list[Slice]) -> None:
    at = 0
    for s in slices:
        if s.offset != at:
            check.fault(
                "metadata-damaged",
                f"piece {s.fqn} begins at {s.offset}, the one before ends at {at}",
                blob.name,
            )
            return
        at += s.length
    if at != blob.size:
        kind = "truncated" if blob.size < at else "trailing-bytes"
        check.fault(kind, f"{blob.size} bytes, its pieces need {at}", blob.name)
        return
    last = slices[-1]
    if last.plain and last.length:
        inner = check_torch_zip(blob.slice(f"{blob.name}:{last.fqn}", last.offset, last.length))
        check.read_bytes += inner.read_bytes
        check.faults.extend(inner.faults)


def _volume(sizes: tuple[int, ...]) -> int:
    out = 1
    for n in sizes:
        out *= n
    return out


def _tensors(check: Check, marker: Marker) -> None:
    there = {(s.fqn, s.at): s for s in marker.slices}
    check.keys = sorted({f.split(".")[0] for f in [*marker.tensors, *marker.objects]})
    for fqn in sorted(marker.objects):
        if (fqn, ()) not in there:
            check.fault("shard-missing", f"object {fqn} lies nowhere", MARKER)
    for fqn, (dtype, size, chunks) in marker.tensors.items():
        check.tensors[fqn] = f"{dtype}{list(size)}"
        if sum(_volume(sizes) for _, sizes in chunks) != _volume(size) or not _inside(size, chunks):
            check.fault("metadata-damaged", f"the pieces of {fqn} do not tile its shape {list(size)}", MARKER)
        for at, sizes in chunks:
            s = there.get((fqn, at)) or (there.get((fqn, ())) if not any(at) else None)
            need = _volume(sizes) * DTYPE.get(dtype, 0)
            if s is None:
                check.fault("shard-missing", f"piece {list(at)} of {fqn} lies nowhere", MARKER)
            elif s.plain and s.length < need:
                check.fault("shard-size", f"piece {list(at)} of {fqn} has {s.length} bytes, needs {need}", s.file)


def _inside(size: tuple[int, ...], chunks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> bool:
    starts = [at for at, sizes in chunks if _volume(sizes)]
    fits = all(len(at) == len(size) == len(sizes) for at, sizes in chunks) and all(
        at[i] + sizes[i] <= size[i] for at, sizes in chunks for i in range(len(size))
    )
    return fits and len(set(starts)) == len(starts)


def _steps(check: Check, folder: Mapping[str, Blob], marker: Marker) -> None:
    """Reads the small objects that are called step or the like."""
    for s in marker.slices:
        name = s.fqn.split(".")[-1]
        blob = folder.get(s.file)
        if (
            s.fqn in marker.objects
            and name in STEP_NAMES
            and s.fqn.count(".") <= 1
            and blob is not None
            and s.length < 1 << 16
        ):
            try:
                value = read_object(blob.slice(s.fqn, s.offset, s.length))
            except (Bad, Unreadable):
                continue  # the content check says what is wrong with it
            if isinstance(value, int):
                check.scalars[name] = value
