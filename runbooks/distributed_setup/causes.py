"""The small maker of causes that the parts of the check share."""

from runbooks.core.verdict import Cause, Certainty


def failed(slug: str, subject: str, *words: str, sure: bool = True, decides: tuple[str, ...] = ()) -> Cause:
    """One failed check."""
    certainty = Certainty.CONFIRMED if sure else Certainty.LIKELY
    return Cause(slug=slug, certainty=certainty, subject=subject, evidence=words, decides=decides)
