"""Structure of safetensors files and of the index of a sharded set. Standard library only, Python 3.8."""

from __future__ import annotations

import json
from typing import Any

from runbooks.parsers.ckpt_types import Bad, Blob, Check

LONGEST_HEADER = 100_000_000
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E5M2FNUZ": 8, "F8_E4M3FNUZ": 8,
    "I16": 16,
    "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "C128": 128,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def check_safetensors(blob: Blob) -> Check:
    """Header and offsets of one file. The format has no checksum: content needs a manifest."""
    check = Check(format="safetensors")
    try:
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


def read_header(blob: Blob) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors begin. Raises Bad."""
    if blob.size < 8:
        raise Bad("truncated", f"{blob.size} bytes are less than its header's length field")
    length = int.from_bytes(blob.read(0, 8), "little")
    if length > LONGEST_HEADER:
        raise Bad("header", f"its header would be {length} bytes long")
    if 8 + length > blob.size:
        raise Bad("truncated", f"its header is {length} bytes long, the file {blob.size}")
    raw = blob.read(8, length)
    if not raw.startswith(b"{"):
        raise Bad("header", f"its header begins with {raw[:8]!r}")
    try:
        header = json.loads(raw.decode(), object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as e:
        raise Bad("header", f"its header is not JSON: {str(e)[:80]}") from e
    if not isinstance(header, dict):
        raise Bad("header", "its header is no mapping")
    return header, 8 + length


def _tile(check: Check, header: dict[str, Any], body: int) -> None:
    extra = header.pop("__metadata__", {})
    if not isinstance(extra, dict) or not all(isinstance(v, str) for v in extra.values()):
        raise Bad("header", "its __metadata__ is not text to text")
    check.scalars = dict(sorted((k, v[:200]) for k, v in extra.items())[:50])
    check.keys = sorted(header)
    spans = []
    for name, entry in header.items():
        begin, end, words = _entry(name, entry)
        check.tensors[name] = words
        spans.append((begin, end, name))
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise Bad("header", f"tensor {name} begins at {begin}, the one before ends at {at}")
        at = end
    if at > body:
        raise Bad("truncated", f"its tensors need {at} bytes, {body} are there")
    if at < body:
        raise Bad("trailing-bytes", f"{body - at} bytes lie behind its last tensor")


def _entry(name: str, entry: Any) -> tuple[int, int, str]:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (TypeError, KeyError, ValueError) as e:
        raise Bad("header", f"tensor {name}: {type(e).__name__} {e}") from e
    if not isinstance(dtype, str) or dtype not in BITS or not all(type(n) is int and 0 <= n < 1 << 60 for n in numbers):
        raise Bad("header", f"tensor {name}: type {dtype!r}, shape {shape}, offsets {begin}-{end}")
    bits = BITS[dtype]
    for n in shape:
        bits *= n
    if bits % 8 or bits // 8 != end - begin:
        raise Bad("header", f"tensor {name}: {dtype}{shape} needs {bits // 8} bytes, its offsets say {end - begin}")
    return begin, end, f"{dtype}{shape}"


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
