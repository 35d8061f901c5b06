"""CRC-32 of a whole from the CRC-32 of its pieces, so that one large record is read by many threads. Python 3.8,
standard library only."""

from __future__ import annotations

POLYNOMIAL = 0xEDB88320
_POWERS: list[list[int]] = []  # k -> what 2**k zero bytes do to each bit of a CRC


def combine(first: int, second: int, length: int) -> int:
    """CRC-32 of two pieces in a row; `length` is that of the second."""
    k = 0
    while length:
        if length & 1:
            first = _apply(_power(k), first)
        length >>= 1
        k += 1
    return first ^ second


def _power(k: int) -> list[int]:
    if not _POWERS:
        bit = [POLYNOMIAL] + [1 << n for n in range(31)]
        for _ in range(3):  # one bit, squared three times: one byte
            bit = _square(bit)
        _POWERS.append(bit)
    while len(_POWERS) <= k:
        _POWERS.append(_square(_POWERS[-1]))
    return _POWERS[k]


def _apply(matrix: list[int], value: int) -> int:
    out = at = 0
    while value:
        if value & 1:
            out ^= matrix[at]
        value >>= 1
        at += 1
    return out


def _square(matrix: list[int]) -> list[int]:
    return [_apply(matrix, row) for row in matrix]
