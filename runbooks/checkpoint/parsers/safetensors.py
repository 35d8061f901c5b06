"""Structure of safetensors files and of the index of a sharded set. Standard library only, Python 3.8."""

from __future__ import annotations

import json
import re
from array import array
from typing import Any

from runbooks.checkpoint.parsers.types import Bad, Blob, StructureCheck

LIBRARY_HEADER = 100_000_000  # safetensors refuses longer ones (MAX_HEADER_SIZE in its tensor.rs)
WHOLE_HEADER = 64 << 20  # longer ones are not built in memory: only their offsets are read
LONGEST_HEADER = 1 << 30
OFFSETS = re.compile(rb'"data_offsets"\s*:\s*\[\s*(\d{1,19})\s*,\s*(\d{1,19})\s*\]')
WINDOW, OVERLAP = 4 << 20, 200
NAME = re.compile(r"[A-Z][A-Z0-9_]{1,15}")  # of a number type
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E5M2FNUZ": 8, "F8_E4M3FNUZ": 8,
    "I16": 16,
    "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "C128": 128,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def check_safetensors(blob: Blob) -> StructureCheck:
    """Header and offsets of one file. The format has no checksum: content needs a manifest."""
    check = StructureCheck(format="safetensors")
    try:
        length = header_length(blob)
        if length > LIBRARY_HEADER:
            words = f"its header is {length} bytes long, the safetensors library takes at most {LIBRARY_HEADER}"
            check.loader_limits.append(words)
        if length > WHOLE_HEADER:
            _tile_offsets(check, blob, length)
            return check
        header, size = read_header(blob)
        check.read_bytes += size
        _tile(check, header, blob.size - size)
    except Bad as e:
        check.fault(e.kind, e.detail, blob.name)
    return check


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Bad("header", "a name is there twice")
    return found


def header_length(blob: Blob) -> int:
    """What its first 8 bytes say, tried against the file. Raises Bad."""
    if blob.size < 8:
        raise Bad("truncated", f"{blob.size} bytes are less than its header's length field")
    first = blob.read(0, min(16, blob.size))
    length = int.from_bytes(first[:8], "little")
    if len(first) > 8 and first[8:9] != b"{":
        raise Bad("header", f"its header would be {length} bytes long and begins with {first[8:]!r}")
    if length >> 40:  # more than a terabyte of names: no length
        raise Bad("header", f"its header would be {length} bytes long")
    if 8 + length > blob.size:
        raise Bad("truncated", f"its header is {length} bytes long, the file {blob.size}")
    return length


def _tile_offsets(check: StructureCheck, blob: Blob, length: int) -> None:
    """A header too long to be built: the offsets of all tensors must tile the file. Names, types and shapes are not read."""
    _text(blob.read(8, min(WINDOW, length)), length)
    if length > LONGEST_HEADER:
        raise Bad("beyond-reader", f"its header is {length} bytes long, at most {LONGEST_HEADER} are read")
    begins, ends, at, tail = array("Q"), array("Q"), 8, b""
    while at < 8 + length:
        data = blob.read(at, min(WINDOW, 8 + length - at))
        if not data:
            raise Bad("truncated", f"its header ends at byte {at}, {8 + length} were expected")
        at += len(_text(data, length))
        text, last = tail + data, 0
        for match in OFFSETS.finditer(text):
            begins.append(int(match[1]))
            ends.append(int(match[2]))
            last = match.end()
        tail = text[max(last, len(text) - OVERLAP) :]
    if not tail.rstrip(b" ").endswith(b"}"):
        raise Bad("header", f"its header of {length} bytes does not end with a brace")
    check.read_bytes += length
    check.scalars["tensors"] = len(begins)
    check.notes.append(f"its header is {length} bytes long: of {len(begins)} tensors only the offsets were read")
    _no_gaps(sorted(zip(begins, ends, (str(n) for n in range(len(begins))))), blob.size - 8 - length)  # noqa: B905


def _text(data: bytes, length: int) -> bytes:
    if b"\0" in data:
        raise Bad("header", f"its header of {length} bytes holds zero bytes, which no JSON does")
    return data


def read_header(blob: Blob) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors begin. Raises Bad."""
    length = header_length(blob)
    raw = blob.read(8, length)
    try:
        header = json.loads(raw.decode(), object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as e:
        raise Bad("header", f"its header is not JSON: {str(e)[:80]}") from e
    if not isinstance(header, dict):
        raise Bad("header", "its header is no mapping")
    return header, 8 + length


def _tile(check: StructureCheck, header: dict[str, Any], body: int) -> None:
    extra = header.pop("__metadata__", {})
    if not isinstance(extra, dict) or not all(isinstance(v, str) for v in extra.values()):
        raise Bad("header", "its __metadata__ is not text to text")
    check.scalars = dict(sorted((k, v[:200]) for k, v in extra.items())[:50])
    check.keys = sorted(header)
    spans = []
    for name, entry in header.items():
        begin, end, words, known = _entry(name, entry)
        check.tensors[name] = words
        spans.append((begin, end, name))
        if not known and not check.limits:
            check.fault("beyond-reader", f"tensor {name}: its type {words} is not known here")
    _no_gaps(sorted(spans), body)


def _no_gaps(spans: list[tuple[int, int, str]], body: int) -> None:
    at = 0
    for begin, end, name in spans:
        if begin != at:
            raise Bad("header", f"tensor {name} begins at {begin}, the one before ends at {at}")
        at = end
    if at > body:
        raise Bad("truncated", f"its tensors need {at} bytes, {body} are there")
    if at < body:
        raise Bad("trailing-bytes", f"{body - at} bytes lie behind its last tensor")


def _entry(name: str, entry: Any) -> tuple[int, int, str, bool]:
    """Begin, end, type and shape, and whether the type is known, so that its size could be compared."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (TypeError, KeyError, ValueError) as e:
        raise Bad("header", f"tensor {name}: {type(e).__name__} {e}") from e
    counted = all(type(n) is int and 0 <= n < 1 << 60 for n in numbers)
    if not isinstance(dtype, str) or not NAME.fullmatch(dtype) or not counted or end < begin:
        raise Bad("header", f"tensor {name}: type {dtype!r}, shape {shape}, offsets {begin}-{end}")
    if dtype not in BITS:
        return begin, end, f"{dtype}{shape}", False
    bits = BITS[dtype]
    for n in shape:
        bits *= n
    if bits % 8 or bits // 8 != end - begin:
        raise Bad("header", f"tensor {name}: {dtype}{shape} needs {bits // 8} bytes, its offsets say {end - begin}")
    return begin, end, f"{dtype}{shape}", True


def parse_index(text: bytes) -> tuple[dict[str, str], int]:
    """`model.safetensors.index.json`: tensor -> file, and the total size it states (0: none). Raises Bad."""
    try:
        data = json.loads(text.decode())
        weights = data["weight_map"]
        total = int(data.get("metadata", {}).get("total_size", 0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Bad("metadata-damaged", f"its index cannot be read: {type(e).__name__} {str(e)[:60]}") from e
    if not isinstance(weights, dict) or not all(isinstance(v, str) and "/" not in v for v in weights.values()):
        raise Bad("metadata-damaged", "its index names no files")
    return weights, total
