"""Looks for NaN and infinity in the tensors of a checkpoint, by their bits: nothing is loaded. Bounded memory. Python
3.8, standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from runbooks.checkpoint.parsers.dcp import SHARD, is_dcp
from runbooks.checkpoint.parsers.legacy import LEGACY_HEAD, read_pickles
from runbooks.checkpoint.parsers.machine import PickleUnreadable
from runbooks.checkpoint.parsers.marker import MARKER, read_marker
from runbooks.checkpoint.parsers.safetensors import read_header
from runbooks.checkpoint.parsers.sniff import ZIP
from runbooks.checkpoint.parsers.tensors import Walk
from runbooks.checkpoint.parsers.torch import SMALL, read_object
from runbooks.checkpoint.parsers.types import Bad, Blob, CheckpointFault, StructureCheck
from runbooks.checkpoint.parsers.zip_file import data_start, parse_zip

CHUNK = 4 << 20
SPAN = 64 << 20
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
F16, BF16 = ((0x00, 0x7C), (0xFF, 0x03)), ((0x80, 0x7F), (0x7F, 0x00))
F32, F64 = ((0, 0, 0x80, 0x7F), (0xFF, 0xFF, 0x7F, 0)), ((0,) * 6 + (0xF0, 0x7F), (0xFF,) * 6 + (0x0F, 0))
BITS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {  # per byte: exponent bits, mantissa bits
    "float16": F16, "complex32": F16, "bfloat16": BF16, "float32": F32, "complex64": F32, "float64": F64,
    "complex128": F64, "float8_e5m2": ((0x7C,), (0x03,)),
}  # fmt: skip
ONLY_NAN = {"float8_e4m3fn": (0x7F, 0xFF), "float8_e8m0fnu": (0xFF,), "float8_e4m3fnuz": (0x80,),
            "float8_e5m2fnuz": (0x80,)}  # fmt: skip
SAFETENSORS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
               "C128": "complex128", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn",
               "F8_E8M0": "float8_e8m0fnu", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E4M3FNUZ": "float8_e4m3fnuz"}  # fmt: skip


class Numbers(NamedTuple):
    """A run of floating-point numbers."""

    tensor: str
    file: str
    offset: int
    length: int
    dtype: str


def count(data: bytes, dtype: str) -> tuple[int, int]:
    """(NaN, infinite) numbers in little-endian `data`."""
    if dtype in ONLY_NAN:
        return sum(data.count(v) for v in ONLY_NAN[dtype]), 0
    exponent, mantissa = BITS[dtype]
    size = len(exponent)
    top = data[size - 1 :: size]
    if not _any(top, exponent[-1]):
        return 0, 0
    wild = _all_ones(data, exponent)
    both = wild.bit_count() if hasattr(wild, "bit_count") else bin(wild).count("1")
    nan = wild & _some_one(data, mantissa)
    nans = nan.bit_count() if hasattr(nan, "bit_count") else bin(nan).count("1")
    return nans, both - nans


def _any(column: bytes, mask: int) -> bool:
    return any(v & mask == mask and v in column for v in range(256))


def _all_ones(data: bytes, masks: tuple[int, ...]) -> int:
    out = -1
    for at, mask in enumerate(masks):
        if mask:
            table = bytes(v & mask == mask for v in range(256))
            out &= int.from_bytes(data[at :: len(masks)].translate(table), "little")
    return out


def _some_one(data: bytes, masks: tuple[int, ...]) -> int:
    out = 0
    for at, mask in enumerate(masks):
        if mask:
            table = bytes(v & mask != 0 for v in range(256))
            out |= int.from_bytes(data[at :: len(masks)].translate(table), "little")
    return out


def check_finite(files: Mapping[str, Blob], mapper: Mapper = map) -> tuple[list[CheckpointFault], list[str]]:
    """(suspects: tensors with NaN, notes: tensors with infinity only). Raises nothing: what can't be read is a note."""
    found: list[Numbers] = []
    notes: list[str] = []
    for name, blob in sorted(files.items()):
        try:
            found.extend(_numbers(name, blob, files))
        except (Bad, PickleUnreadable, OSError) as e:
            notes.append(f"{name}: its numbers were not looked at: {e}")
    spans = [s for n in found for s in _spans(n)]
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for span, (nan, infinite) in zip(spans, mapper(lambda s: _count(files[s.file], s), spans)):  # noqa: B905
        before = totals.get((span.file, span.tensor), (0, 0))
        totals[span.file, span.tensor] = (before[0] + nan, before[1] + infinite)
    bad = [CheckpointFault("not-finite", f"{t}: {n} NaN and {i} infinite", f) for (f, t), (n, i) in totals.items() if n]
    odd = [f"{f}: {t} holds {i} infinite numbers and no NaN" for (f, t), (n, i) in totals.items() if i and not n]
    return bad[:20], [*notes, *odd[:5]]


def _spans(n: Numbers) -> list[Numbers]:
    cuts = range(0, n.length, SPAN)
    return [n._replace(offset=n.offset + at, length=min(SPAN, n.length - at)) for at in cuts]


def _count(blob: Blob, span: Numbers) -> tuple[int, int]:
    nan = infinite = 0
    for at in range(0, span.length, CHUNK):
        try:
            data = blob.read(span.offset + at, min(CHUNK, span.length - at))
        except OSError:
            break  # the checksum pass reports what cannot be read
        more = count(data, span.dtype)
        nan, infinite = nan + more[0], infinite + more[1]
    return nan, infinite


def _numbers(name: str, blob: Blob, files: Mapping[str, Blob]) -> list[Numbers]:
    folder, _, base = name.rpartition("/")
    if SHARD.match(base):
        prefix = folder + "/" if folder else ""
        inside = {n[len(prefix) :]: b for n, b in files.items() if n.startswith(prefix)}
        return _of_shard(name, base, blob, inside) if is_dcp(inside) and MARKER in inside else []
    head = blob.read(0, min(16, blob.size))
    if head.startswith(ZIP):
        return _of_zip(name, blob, 0, "")
    if base.endswith(".safetensors"):
        return _of_safetensors(name, blob)
    return _of_legacy(name, blob) if head.startswith(LEGACY_HEAD[:4]) else []


def _of_shard(name: str, base: str, blob: Blob, inside: Mapping[str, Blob]) -> list[Numbers]:
    out: list[Numbers] = []
    for s in read_marker(inside, StructureCheck()).slices:
        if s.file == base and s.plain:
            out.extend(_of_zip(name, blob.slice(s.fqn, s.offset, s.length), s.offset, s.fqn))
    return out


def _of_zip(name: str, blob: Blob, base: int, label: str) -> list[Numbers]:
    walk = Walk()
    walk.run(read_object(blob))
    out = []
    for member in parse_zip(blob).members:
        key = member.name.partition("/data/")[2]
        dtype = walk.dtypes.get(key, "")
        if member.method == 0 and (dtype in BITS or dtype in ONLY_NAN):
            tensor = label or walk.named.get(key, member.name)
            out.append(Numbers(tensor, name, base + data_start(blob, member)[0], member.size, dtype))
    return out


def _of_safetensors(name: str, blob: Blob) -> list[Numbers]:
    header, at = read_header(blob)
    out = []
    for tensor, entry in header.items():
        dtype = SAFETENSORS.get(str(entry.get("dtype")), "") if tensor != "__metadata__" else ""
        if dtype:
            begin, end = entry["data_offsets"]
            out.append(Numbers(tensor, name, at + begin, end - begin, dtype))
    return out


def _legacy_records(blob: Blob) -> tuple[Walk, list[tuple[str, int, int]]]:
    """What a whole legacy file describes, and (storage, offset, bytes) of each record. Raises Unreadable."""
    values, at, _ = read_pickles(blob.read(0, min(SMALL, blob.size)))
    walk, out = Walk(), []
    walk.run(values[3])
    keys = values[4] if isinstance(values[4], list) else []
    for key in keys:
        size = walk.storages[str(key)].bytes
        out.append((str(key), at + 8, size))
        at += 8 + size
    return walk, out


def _of_legacy(name: str, blob: Blob) -> list[Numbers]:
    walk, records = _legacy_records(blob)
    wanted = [(k, at, n) for k, at, n in records if walk.dtypes.get(k, "") in BITS or walk.dtypes.get(k) in ONLY_NAN]
    return [Numbers(walk.named.get(k, k), name, at, n, walk.dtypes[k]) for k, at, n in wanted]


