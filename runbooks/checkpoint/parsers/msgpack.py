"""Where a msgpack value ends: the file of Flax is one. Nothing is built from it. Python 3.8, stdlib only."""

from __future__ import annotations

from runbooks.checkpoint.parsers.types import Blob

LARGEST = 5_000_000  # values of one file that are looked at
FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
         0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}  # fmt: skip
COUNTED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # byte strings and texts: bytes of their length field
EXTENDED = {0xC7: 1, 0xC8: 2, 0xC9: 4}  # one byte more, for the type
LISTS, MAPS = {0xDC: 2, 0xDD: 4}, {0xDE: 2, 0xDF: 4}


def msgpack_end(blob: Blob) -> int:
    """How many bytes the first value of `blob` takes, as far as its own lengths say. Raises ValueError for what is none."""
    at, left = 0, 1
    for _ in range(LARGEST):
        if not left or at >= blob.size:
            return at + (left if at >= blob.size else 0)  # each value that is still to come has at least one byte
        head = blob.read(at, min(5, blob.size - at))
        more, size = _one(head)
        at, left = at + size, left - 1 + more
    raise ValueError(f"more than {LARGEST} values")


def _one(head: bytes) -> tuple[int, int]:
    """Values inside, and bytes of the value itself without them."""
    first = head[0]
    if first <= 0x7F or first >= 0xE0:
        return 0, 1
    if first <= 0x9F:
        return (first & 0x0F) * (2 if first <= 0x8F else 1), 1
    if first <= 0xBF:
        return 0, 1 + (first & 0x1F)
    if first in FIXED:
        return 0, 1 + FIXED[first]
    for table, extra in ((COUNTED, 0), (EXTENDED, 1)):
        if first in table:
            return 0, 1 + table[first] + extra + _number(head, table[first])
    for table, each in ((LISTS, 1), (MAPS, 2)):
        if first in table:
            return each * _number(head, table[first]), 1 + table[first]
    raise ValueError(f"byte {first:#04x} begins no value")


def _number(head: bytes, width: int) -> int:
    return int.from_bytes(head[1 : 1 + width], "big")
