"""Content check: every stored byte against the CRC of its format or the hash of a manifest, in bounded memory.
Python 3.8, stdlib."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from runbooks.checkpoint.parsers.crc import combine
from runbooks.checkpoint.parsers.dcp import is_dcp
from runbooks.checkpoint.parsers.finite import check_finite
from runbooks.checkpoint.parsers.manifest import ManifestEntry, parse_manifest
from runbooks.checkpoint.parsers.marker import MARKER, read_marker
from runbooks.checkpoint.parsers.sets import LARGEST_TEXT, MANY, TEMPORARY, WEIGHTS, CheckpointSpec, find_manifest
from runbooks.checkpoint.parsers.sniff import ZIP
from runbooks.checkpoint.parsers.torch import check_torch_zip, list_parts
from runbooks.checkpoint.parsers.types import Bad, Blob, CheckpointFault, Part, StructureCheck

CHUNK = 4 << 20
SPAN = 64 << 20  # of a record that is read by one thread at a time
WINDOW = 8  # chunks that are fetched ahead of a hash
PAGE = 4000  # a hole of one 4 KiB page that does not begin with the record
Crc = Callable[[bytes, int], int]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def check_content(files: Mapping[str, Blob], spec: CheckpointSpec, crc32: Crc = zlib.crc32, mapper: Mapper = map) -> StructureCheck:
    """Faults of content; `checksummed` says whether every weight byte was proven. `mapper` may run in threads."""
    out = StructureCheck(format="content")
    parts: list[Part] = []
    proven, unproven = set(), []
    for name, blob in sorted(files.items()):
        if TEMPORARY.search(name) or (not name.endswith((*WEIGHTS, ".distcp")) and len(files) > 1):
            continue
        found = _parts_of(out, name, blob, files)
        (proven.add(name) if found else unproven.append(name))
        parts.extend(found)
    hashes = _hashes(out, files, spec)
    out.add(_crc_faults(files, parts, crc32, mapper))
    out.add(f for f in _each(mapper, files, hashes) if isinstance(f, CheckpointFault))
    out.read_bytes = sum(p.length for p in parts) + sum(files[n].size for n in hashes)
    left = [n for n in unproven if n not in hashes]
    if left and spec.digest:
        _digest(out, files, left, mapper)
    if spec.finite and out.whole:
        suspects, notes = check_finite(files, mapper)
        out.suspects.extend(suspects)
        out.notes.extend(notes)
    out.checksummed = not left and bool(proven or hashes)
    if left:
        out.notes.append(
            f"{len(left)} files carry no checksum and no manifest names them: content is not proven, e.g. {left[0]}"
        )
    del out.faults[MANY:]
    return out


def _parts_of(out: StructureCheck, name: str, blob: Blob, files: Mapping[str, Blob]) -> list[Part]:
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


def _dcp_parts(out: StructureCheck, name: str, blob: Blob, files: Mapping[str, Blob]) -> list[Part]:
    folder, _, base = name.rpartition("/")
    prefix = folder + "/" if folder else ""
    inside = {n[len(prefix) :]: b for n, b in files.items() if n.startswith(prefix)}
    if not is_dcp(inside) or MARKER not in inside:
        return []
    parts: list[Part] = []
    for s in read_marker(inside, StructureCheck()).slices:
        if s.file != base or not s.plain:
            continue
        piece = blob.slice(f"{name}:{s.fqn}", s.offset, s.length)
        check = check_torch_zip(piece)
        out.add(f._replace(file=name) for f in [*check.faults, *check.limits])
        if check.whole:
            found, notes = list_parts(piece, name, s.offset)
            parts.extend(p._replace(name=f"{s.fqn}:{p.name}") for p in found)
            out.notes.extend(f"{name}: {s.fqn}: {n}" for n in notes[:5])
    return parts


def _hashes(out: StructureCheck, files: Mapping[str, Blob], spec: CheckpointSpec) -> dict[str, ManifestEntry]:
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


class _Span(NamedTuple):
    part: Part
    offset: int
    length: int


def _crc_faults(files: Mapping[str, Blob], parts: list[Part], crc32: Crc, mapper: Mapper) -> list[CheckpointFault]:
    """Large records are read in spans, by as many threads as the mapper has, and their checksums combined."""
    spans = [
        _Span(p, at, min(SPAN, p.offset + p.length - at))
        for p in parts
        for at in range(p.offset, p.offset + max(p.length, 1), SPAN)
    ]
    got: dict[Part, Any] = {}
    for span, crc in zip(spans, mapper(lambda s: _crc_span(files[s.part.file], s, crc32), spans)):  # noqa: B905
        before = got.get(span.part, 0)
        wrong = before if isinstance(before, CheckpointFault) else crc if isinstance(crc, CheckpointFault) else None
        got[span.part] = wrong or combine(before, crc, span.length)
    out = [f if isinstance(f, CheckpointFault) else _differs(files[p.file], p, f) for p, f in got.items()]
    return [f for f in out if f is not None]


def _crc_span(blob: Blob, span: _Span, crc32: Crc) -> int | CheckpointFault:
    crc, part = 0, span.part
    try:
        for data in _chunks(blob, span.offset, span.length):
            crc = crc32(data, crc)
    except Bad as e:
        return CheckpointFault(e.kind, e.detail, part.file)
    except OSError as e:
        return CheckpointFault("unreadable", f"record {part.name} at byte {span.offset}: {e}", part.file)
    return crc


def _differs(blob: Blob, part: Part, crc: int) -> CheckpointFault | None:
    if crc == part.crc:
        return None
    where = f"bytes {part.offset}-{part.offset + part.length}"
    hole = _hole(blob, part)
    if hole is not None:
        return CheckpointFault(
            "zero-hole", f"record {part.name} ({where}): zeros from byte {hole}, and its CRC-32 differs", part.file
        )
    return CheckpointFault("crc", f"record {part.name} ({where}): CRC-32 {crc:08x}, stored {part.crc:08x}", part.file)


def _hole(blob: Blob, part: Part) -> int | None:
    """Where a page of zeros begins in a damaged record; None if there is none."""
    at, zeros = part.offset, bytes(PAGE)
    for data in _chunks(blob, part.offset, part.length):
        found = data.find(zeros)
        if found >= 0:
            return at + found
        at += len(data)
    return None


def _each(mapper: Mapper, files: Mapping[str, Blob], wanted: Mapping[str, ManifestEntry]) -> list[Any]:
    """A fault or a digest per file: many files at once, or one file in pieces that are fetched ahead."""
    if len(wanted) == 1:
        return [_hash_file(files[n], n, e, mapper) for n, e in wanted.items()]
    return list(mapper(lambda h: _hash_file(files[h[0]], h[0], h[1], map), wanted.items()))


def _hash_file(blob: Blob, name: str, entry: ManifestEntry, mapper: Mapper) -> CheckpointFault | str:
    digest = hashlib.new(entry.algorithm)
    try:
        for first in range(0, blob.size, CHUNK * WINDOW):
            cuts = range(first, min(blob.size, first + CHUNK * WINDOW), CHUNK)
            for data in mapper(lambda at: blob.read(at, min(CHUNK, blob.size - at)), cuts):
                digest.update(data)
    except OSError as e:
        return CheckpointFault("unreadable", str(e), name)
    if not entry.digest or digest.hexdigest() == entry.digest:
        return digest.hexdigest()
    return CheckpointFault("hash", f"{entry.algorithm} {digest.hexdigest()[:16]}…, the manifest says {entry.digest[:16]}…", name)


def _digest(out: StructureCheck, files: Mapping[str, Blob], names: list[str], mapper: Mapper) -> None:
    """One hash over files that nothing else proves: copies of one save have the same."""
    got = _each(mapper, files, {n: ManifestEntry(None, "sha256", "") for n in names})
    out.add(g for g in got if isinstance(g, CheckpointFault))
    if all(isinstance(g, str) for g in got):
        text = "\n".join(f"{n if len(names) > 1 else ''} {g}" for n, g in zip(names, got))  # noqa: B905
        out.digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
