"""How long a GGUF file must be, by its own header. Python 3.8, stdlib only. Source: ggml docs/gguf.md, versions 2 and 3."""

from __future__ import annotations

import struct

from runbooks.checkpoint.parsers.types import Blob

SCALAR = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
BLOCK = {  # type -> (numbers, bytes) of one block; source: ggml.h
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 30: (1, 2),
}  # fmt: skip
WINDOW = 1 << 20
MOST = 2_000_000  # strings, tensors and array items that are walked over


class Cursor:
    """Reads a header from front to back, a window at a time."""

    def __init__(self, blob: Blob) -> None:
        self.blob, self.at, self.begin, self.data, self.steps = blob, 0, 0, b"", 0

    def take(self, n: int) -> bytes:
        if not (self.begin <= self.at and self.at + n <= self.begin + len(self.data)):
            self.begin, self.data = self.at, self.blob.read(self.at, min(max(n, WINDOW), max(0, self.blob.size - self.at)))
        out = self.data[self.at - self.begin : self.at - self.begin + n]
        self.at += n
        if len(out) < n:
            raise EOFError
        return out

    def number(self, form: str) -> int:
        return int(struct.unpack("<" + form, self.take(struct.calcsize(form)))[0])

    def skip_text(self) -> None:
        length = self.number("Q")
        self.at += length
        self.steps += 1
        if self.steps > MOST:
            raise ValueError(f"more than {MOST} names")

    def skip_value(self, kind: int) -> None:
        if kind == STRING:
            self.skip_text()
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in SCALAR:
                self.at += SCALAR[inner] * count
            else:
                for _ in range(count):
                    self.skip_value(inner)
        elif kind in SCALAR:
            self.at += SCALAR[kind]
        else:
            raise ValueError(f"a value of type {kind}")


def gguf_size(blob: Blob) -> int:
    """Bytes that the header asks for; more than there are where the header itself is cut. Raises ValueError, struct.error."""
    try:
        return _size(Cursor(blob))
    except EOFError:
        return blob.size + 1


def _size(c: Cursor) -> int:
    c.at = 4
    version, tensors, values = c.number("I"), c.number("Q"), c.number("Q")
    if version not in (2, 3):
        raise ValueError(f"version {version}")
    align = 32
    for _ in range(values):
        length = c.number("Q")
        key = c.take(length) if length < 200 else b""
        c.at += 0 if key else length
        kind = c.number("I")
        if key == b"general.alignment" and kind == 4:
            align = c.number("I")
        else:
            c.skip_value(kind)
    ends = [_tensor(c) for _ in range(tensors)]
    return -(-c.at // align) * align + max(ends, default=0)


def _tensor(c: Cursor) -> int:
    """Where a tensor ends behind the beginning of the data; where its type is not known, where it begins."""
    c.skip_text()
    count = 1
    for _ in range(c.number("I")):
        count *= c.number("Q")
    kind, offset = c.number("I"), c.number("Q")
    numbers, size = BLOCK.get(kind, (1, 0))
    return offset + count // numbers * size
