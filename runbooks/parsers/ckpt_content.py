"""Content check: every stored byte against the CRC of its format or the hash of a manifest, in bounded memory.
Python 3.8, stdlib."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runbooks.parsers.ckpt_dcp import MARKER, is_dcp, read_marker
from runbooks.parsers.ckpt_manifest import Entry, parse_manifest
from runbooks.parsers.ckpt_set import LARGEST_TEXT, MANY, TEMPORARY, WEIGHTS, Spec, find_manifest
from runbooks.parsers.ckpt_sniff import ZIP
from runbooks.parsers.ckpt_torch import check_torch_zip, list_parts
from runbooks.parsers.ckpt_types import Bad, Blob, Check, Fault, Part

CHUNK = 4 << 20
PAGE = 4000  # a hole of one 4 KiB page that does not begin with the record
Crc = Callable[[bytes, int], int]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def check_content(files: Mapping[str, Blob], spec: Spec, crc32: Crc = zlib.crc32, mapper: Mapper = map) -> Check:
    """Faults of content; `checksummed` says whether every weight byte was proven. `mapper` may run in threads."""
    out = Check(format="content")
    parts: list[Part] = []
    proven, unproven = set(), []
    for name, blob in sorted(files.items()):
        if TEMPORARY.search(name) or (not name.endswith((*WEIGHTS, ".distcp")) and len(files) > 1):
            continue
        found = _parts_of(out, name, blob, files)
        (proven.add(name) if found else unproven.append(name))
        parts.extend(found)
    hashes = _hashes(out, files, spec)
    out.faults.extend(f for f in mapper(lambda p: _crc_part(files[p.file], p, crc32), parts) if f is not None)
    out.faults.extend(f for f in mapper(lambda h: _hash_file(files[h[0]], h[0], h[1]), hashes.items()) if f is not None)
    out.read_bytes = sum(p.length for p in parts) + sum(files[n].size for n in hashes)
    left = [n for n in unproven if n not in hashes]
    out.checksummed = not left and bool(proven or hashes)
    if left:
        out.notes.append(
            f"{len(left)} files carry no checksum and no manifest names them: content is not proven, e.g. {left[0]}"
        )
    del out.faults[MANY:]
    return out


def _parts_of(out: Check, name: str, blob: Blob, files: Mapping[str, Blob]) -> list[Part]:
    try:
        if name.endswith(".distcp"):
            return _dcp_parts(out, name, blob, files)
        if blob.size >= 4 and blob.read(0, 4) == ZIP:
            parts, notes = list_parts(blob, name)
            out.notes.extend(f"{name}: {n}" for n in notes[:5])
            return parts
    except Bad as e:
        out.fault(e.kind, e.detail, name)
    return []


def _dcp_parts(out: Check, name: str, blob: Blob, files: Mapping[str, Blob]) -> list[Part]:
    folder, _, base = name.rpartition("/")
    prefix = folder + "/" if folder else ""
    inside = {n[len(prefix) :]: b for n, b in files.items() if n.startswith(prefix)}
    if not is_dcp(inside) or MARKER not in inside:
        return []
    parts: list[Part] = []
    for s in read_marker(inside, Check()).slices:
        if s.file != base or not s.plain:
            continue
        piece = blob.slice(f"{name}:{s.fqn}", s.offset, s.length)
        check = check_torch_zip(piece)
        out.faults.extend(f._replace(file=name) for f in check.faults)
        if check.whole:
            found, notes = list_parts(piece, name, s.offset)
            parts.extend(p._replace(name=f"{s.fqn}:{p.name}") for p in found)
            out.notes.extend(f"{name}: {s.fqn}: {n}" for n in notes[:5])
    return parts


def _hashes(out: Check, files: Mapping[str, Blob], spec: Spec) -> dict[str, Entry]:
    blob = find_manifest(files, spec)
    if blob is None:
        return {}
    try:
        entries = parse_manifest(blob.read(0, min(blob.size, LARGEST_TEXT)).decode("utf-8", "replace"))
    except Bad as e:
        out.notes.append(e.detail)
        return {}
    return {n: e for n, e in entries.items() if n in files and e.digest}


def _chunks(blob: Blob, offset: int, length: int) -> Iterable[bytes]:
    end = offset + length
    while offset < end:
        data = blob.read(offset, min(CHUNK, end - offset))
        if not data:
            raise Bad("truncated", f"ends at byte {offset}, {end} were expected")
        yield data
        offset += len(data)


def _crc_part(blob: Blob, part: Part, crc32: Crc) -> Fault | None:
    crc = 0
    try:
        for data in _chunks(blob, part.offset, part.length):
            crc = crc32(data, crc)
    except Bad as e:
        return Fault(e.kind, e.detail, part.file)
    except OSError as e:
        return Fault("unreadable", f"record {part.name} at byte {part.offset}: {e}", part.file)
    if crc == part.crc:
        return None
    where = f"bytes {part.offset}-{part.offset + part.length}"
    hole = _hole(blob, part)
    if hole is not None:
        return Fault(
            "zero-hole", f"record {part.name} ({where}): zeros from byte {hole}, and its CRC-32 differs", part.file
        )
    return Fault("crc", f"record {part.name} ({where}): CRC-32 {crc:08x}, stored {part.crc:08x}", part.file)


def _hole(blob: Blob, part: Part) -> int | None:
    """Where a page of zeros begins in a damaged record; None if there is none."""
    at, zeros = part.offset, bytes(PAGE)
    for data in _chunks(blob, part.offset, part.length):
        found = data.find(zeros)
        if found >= 0:
            return at + found
        at += len(data)
    return None


def _hash_file(blob: Blob, name: str, entry: Entry) -> Fault | None:
    digest = hashlib.new(entry.algorithm)
    try:
        for data in _chunks(blob, 0, blob.size):
            digest.update(data)
    except Bad as e:
        return Fault(e.kind, e.detail, name)
    except OSError as e:
        return Fault("unreadable", str(e), name)
    if digest.hexdigest() == entry.digest:
        return None
    return Fault("hash", f"{entry.algorithm} {digest.hexdigest()[:16]}…, the manifest says {entry.digest[:16]}…", name)
