"""Helpers that the ray-job judgment's parts share."""

from typing import TypeVar

from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.verdict import Cause, Certainty

T = TypeVar("T")


def known(reading: Known[T] | Absent | Unknown) -> T | None:
    """The value, or None for absent and unknown."""
    return reading.value if isinstance(reading, Known) else None


def cause(slug: str, certainty: Certainty, subject: str, *evidence: str, decides: tuple[str, ...] = (),
          innocent: bool = False) -> Cause:  # fmt: skip
    """A cause; empty sentences are left out."""
    words = tuple(s for s in evidence if s) or ("nothing was said",)
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=words, decides=decides, innocent=innocent)
