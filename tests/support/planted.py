"""Secrets that never existed, made from the samples of secret_shapes.yaml, and a check that none of them is somewhere."""

import random
import re
import string
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from runbooks.core.secret_shapes import shapes

CLASSES = {
    "A": string.ascii_letters + string.digits,
    "L": string.ascii_letters,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "x": "0123456789abcdef",
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "B": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_PART = re.compile(r"\{([ALaUxdwbB])(\d+)\}")
SHORTEST, WINDOW = 6, 10  # characters: of a random part that is looked for, and of a piece of it


class Planted(NamedTuple):
    """A secret, and what of it is random."""

    text: str
    parts: tuple[str, ...]

    def leaks_into(self, text: str) -> bool:
        """True if a piece of it stands in `text`."""
        return any(piece in text for piece in pieces(self))


def pieces(secret: Planted) -> tuple[str, ...]:
    """What of it tells that it stands somewhere, whole or in part."""
    return tuple(p[i : i + WINDOW] for p in secret.parts for i in range(0, max(1, len(p) - WINDOW + 1), 3))


def made(sample: str, seed: int) -> Planted:
    """One secret of that form."""
    rng = random.Random(f"{sample}{seed}")
    parts: list[str] = []

    def part(m: re.Match[str]) -> str:
        parts.append("".join(rng.choices(CLASSES[m[1]], k=int(m[2]))))
        return parts[-1]

    return Planted(_PART.sub(part, sample), tuple(p for p in parts if len(p) >= SHORTEST))


@cache
def planted(seed: int = 1) -> dict[str, Planted]:
    """A secret of every form of the table: name of its row -> secret."""
    return {row.name: made(row.sample, seed) for row in (*shapes().tokens, *shapes().addresses)}


def log_line(secret: Planted) -> str:
    """A line of a log that shows it."""
    return f"2025-01-01 10:00:00 INFO connecting with {secret.text} now\n"


def leaked(text: str, secrets: Iterable[Planted]) -> list[str]:
    """Those of which a piece stands in `text`."""
    return [s.text for s in secrets if s.leaks_into(text)]
