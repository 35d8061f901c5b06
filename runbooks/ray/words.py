"""Helpers that the ray-job judgment's parts share."""

from runbooks.core.verdict import Cause, Certainty


def cause(slug: str, certainty: Certainty, subject: str, *evidence: str, decides: tuple[str, ...] = (),
          benign: bool = False) -> Cause:  # fmt: skip
    """A cause; empty sentences are left out."""
    words = tuple(s for s in evidence if s) or ("nothing was said",)
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=words, decides=decides, benign=benign)
