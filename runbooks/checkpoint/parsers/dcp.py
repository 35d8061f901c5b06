"""Structure of a torch distributed checkpoint folder (`.metadata`, `__rank_n.distcp`). Python 3.8, standard library
only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runbooks.checkpoint.parsers.groups import stored_groups
from runbooks.checkpoint.parsers.machine import PickleUnreadable
from runbooks.checkpoint.parsers.marker import MARKER, Marker, Slice, read_marker
from runbooks.checkpoint.parsers.tensors import DTYPE
from runbooks.checkpoint.parsers.torch import check_torch_zip, read_object
from runbooks.checkpoint.parsers.types import Bad, Blob, StructureCheck

MARKER_TMP = ".metadata.tmp"
SHARD = re.compile(r"__(\d+)_(\d+)\.distcp$")
STEP_NAMES = ("step", "global_step", "iteration", "iter", "num_steps")


def is_dcp(names: Mapping[str, Any]) -> bool:
    """The folder holds a distributed checkpoint, or what is left of one."""
    return MARKER in names or MARKER_TMP in names or any(SHARD.match(n) for n in names)


def check_dcp(folder: Mapping[str, Blob]) -> StructureCheck:
    """Commit marker, shards, slices that tile every shard and every tensor; of each shard, the last slice is opened.

    Without `.metadata`, `.metadata.tmp` is read in its place: where all fits it, only the last rename is missing.
    """
    check = StructureCheck(format="dcp")
    renamed = MARKER in folder
    try:
        marker = read_marker(folder if renamed or MARKER_TMP not in folder else {**folder, MARKER: folder[MARKER_TMP]}, check)
        _shards(check, folder, marker)
        _tensors(check, marker)
        check.groups = stored_groups([*marker.tensors, *marker.objects])
        _steps(check, folder, marker)
        check.checksummed = all(s.plain for s in marker.slices)
        if not renamed:
            _uncommitted(check)
    except Bad as e:
        if renamed:
            check.fault(e.kind, e.detail, MARKER)
        else:
            check.fault("metadata-missing", f"{_left(folder)}: the save was not finished ({e.detail})", MARKER)
    return check


def _uncommitted(check: StructureCheck) -> None:
    if check.whole:
        words = f"{MARKER} is not there; {MARKER_TMP} is whole, and all {len(check.needs)} shards are as it says"
        check.fault("uncommitted", words, MARKER)
    else:
        check.fault("metadata-missing", f"only {MARKER_TMP} is there, and not all shards are as it says", MARKER)


def _left(folder: Mapping[str, Blob]) -> str:
    return f"only {MARKER_TMP} is there" if MARKER_TMP in folder else f"{MARKER} is not there"


def _shards(check: StructureCheck, folder: Mapping[str, Blob], marker: Marker) -> None:
    by_file: dict[str, list[Slice]] = {}
    for s in marker.slices:
        by_file.setdefault(s.file, []).append(s)
    check.needs = {file: max(s.offset + s.length for s in slices) for file, slices in by_file.items()}
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


def _tile(check: StructureCheck, blob: Blob, slices: list[Slice]) -> None:
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
        check.add([*inner.faults, *inner.limits])


def _volume(sizes: tuple[int, ...]) -> int:
    out = 1
    for n in sizes:
        out *= n
    return out


def _tensors(check: StructureCheck, marker: Marker) -> None:
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


def _steps(check: StructureCheck, folder: Mapping[str, Blob], marker: Marker) -> None:
    """Reads the small objects that are called step or the like, and how many parameters a group of the optimizer has."""
    sizes: dict[str, int] = {}
    for s in marker.slices:
        name = s.fqn.split(".")[-1]
        blob = folder.get(s.file)
        if name == "params" and "param_groups." in s.fqn and s.fqn in marker.objects and blob is not None and s.length < 1 << 20:
            kept = _small(blob, s)
            sizes[s.fqn.rpartition(".")[0]] = len(kept) if isinstance(kept, (list, tuple)) else -1
        if (
            s.fqn in marker.objects
            and name in STEP_NAMES
            and s.fqn.count(".") <= 1
            and blob is not None
            and s.length < 1 << 16
        ):
            value = _small(blob, s)
            if isinstance(value, int):
                check.scalars[name] = value
    check.groups = [(group, sizes.get(group, -1), keys) for group, _, keys in check.groups]


def _small(blob: Blob, s: Slice) -> object:
    """A small object; None where it cannot be read: the content check says what is wrong with it."""
    try:
        return read_object(blob.slice(s.fqn, s.offset, s.length))
    except (Bad, PickleUnreadable):
        return None
