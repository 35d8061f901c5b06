"""The small maker of causes that the parts of the check share."""

from runbooks.core.verdict import Cause, Certainty


def possible(slug: str, subject: str, *words: str, decides: tuple[str, ...]) -> Cause:
    """What may fail, and what decides whether it does."""
    return Cause(slug=slug, certainty=Certainty.POSSIBLE, subject=subject, evidence=words, decides=decides)


def failed(slug: str, subject: str, *words: str, sure: bool = True, decides: tuple[str, ...] = (), fix: str = "") -> Cause:
    """One failed check."""
    certainty = Certainty.CONFIRMED if sure else Certainty.LIKELY
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=words, decides=decides, fix=fix)
