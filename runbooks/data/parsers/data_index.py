"""Checks a Megatron token index against its data: header, tiling, document index, ids. Python 3.8, stdlib only."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable
from typing import NamedTuple

from runbooks.data.parsers.data_jsonl import DataFault

MAGIC, LEGACY = b"MMIDIDX\0\0", b"TNTIDX\0\0"
HEADER = struct.Struct("<9sQBQQ")
ITEM = {1: (1, "B"), 2: (1, "b"), 3: (2, "h"), 4: (4, "i"), 5: (8, "q"), 6: (8, "d"), 7: (4, "f"), 8: (2, "H")}
CHUNK = 1 << 20
Read = Callable[[int, int], bytes]


class TokenIndex(NamedTuple):
    """The header, decoded."""

    code: int
    sequences: int
    documents: int


def check_index(read: Read, size: int, data_size: int) -> tuple[TokenIndex | None, list[DataFault]]:
    """Every invariant of the index, as a stream."""
    head = read(0, HEADER.size)
    if head.startswith(LEGACY):
        return None, [DataFault("legacy-index", "a fairseq index (TNTIDX): another reader is needed")]
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        return None, [DataFault("index-header", f"it begins with {head[:9]!r}, not with MMIDIDX")]
    _, version, code, sequences, documents = HEADER.unpack(head)
    if version != 1:
        return None, [DataFault("version", f"version {version}; version 1 is known here", offset=9)]
    if code not in ITEM:
        return None, [DataFault("index-header", f"version {version}, type code {code}", offset=9)]
    index = TokenIndex(code, sequences, documents)
    need = HEADER.size + 12 * sequences + 8 * documents
    if size not in (need, need + sequences):
        return index, [
            DataFault("index-size", f"{size} bytes, its header says {need} (or {need + sequences} with modes)")
        ]
    return index, [*_pointers(read, index, data_size), *_documents(read, index)]


def _numbers(read: Read, offset: int, count: int, kind: str) -> array[int]:
    out = array(kind)
    out.frombytes(read(offset, count * out.itemsize))
    if sys.byteorder != "little":
        out.byteswap()
    return out


def _pointers(read: Read, index: TokenIndex, data_size: int) -> list[DataFault]:
    item, at, lengths_at = ITEM[index.code][0], 0, HEADER.size
    pointers_at = lengths_at + 4 * index.sequences
    for first in range(0, index.sequences, CHUNK):
        n = min(CHUNK, index.sequences - first)
        lengths, pointers = (
            _numbers(read, lengths_at + 4 * first, n, "i"),
            _numbers(read, pointers_at + 8 * first, n, "q"),
        )
        for i, (length, pointer) in enumerate(zip(lengths, pointers), first):  # noqa: B905
            if length < 0 or pointer != at:
                words = f"sequence {i} begins at {pointer} with {length} items, the one before ends at {at}"
                return [DataFault("index-tiling", words, i, pointers_at + 8 * i)]
            at += length * item
    if at != data_size:
        words = f"its sequences need {at} bytes of data, the .bin has {data_size}"
        return [DataFault("stale-index" if at < data_size else "data-cut", words)]
    return []


def _documents(read: Read, index: TokenIndex) -> list[DataFault]:
    offset, last = HEADER.size + 12 * index.sequences, -1
    for first in range(0, index.documents, CHUNK):
        for i, at in enumerate(_numbers(read, offset + 8 * first, min(CHUNK, index.documents - first), "q"), first):
            wrong = (i == 0 and at != 0) or at < last or at > index.sequences
            if wrong:
                return [
                    DataFault(
                        "index-documents", f"document {i} begins at sequence {at} after {last}", i, offset + 8 * i
                    )
                ]
            last = at
    if index.documents and last != index.sequences:
        return [DataFault("index-documents", f"the last document ends at {last} of {index.sequences} sequences")]
    return []


def check_ids(read: Read, data_size: int, code: int, vocabulary: int) -> list[DataFault]:
    """Token ids that no embedding row exists for: the first one, and how many."""
    item, kind = ITEM[code]
    if kind in "df":
        return [DataFault("index-header", "tokens are floating-point numbers")]
    worst, count, first = 0, 0, -1
    for at in range(0, data_size - data_size % item, CHUNK * item):
        ids = array(kind)
        ids.frombytes(read(at, min(CHUNK * item, data_size - data_size % item - at)))
        if not len(ids) or (max(ids) < vocabulary and min(ids) >= 0):
            continue
        for i, token in enumerate(ids):
            if not 0 <= token < vocabulary:
                count, worst = count + 1, max(worst, token) if token >= 0 else worst
                first = at + i * item if first < 0 else first
    if not count:
        return []
    words = f"{count} ids lie outside of the vocabulary of {vocabulary} rows; the largest is {worst}"
    return [DataFault("ids-out-of-range", words, 0, first)]
