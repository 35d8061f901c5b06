"""What is said of a question wherever it is shown: since when it waits, and what happens if nobody answers."""

from datetime import datetime

from runbooks.core.outcome import Outcome
from runbooks.core.times import utc


def waits_words(since: datetime | None, until: datetime | None) -> str:
    """Two sentences; `until`: after it no answer counts."""
    asked = f"Asked at {utc(since)}. " if since else ""
    if until is None:
        return f"{asked}It waits until someone answers."
    ends = f"the run ends as “{Outcome.EXPIRED.row.name}” and changes nothing"
    return f"{asked}Without an answer by {utc(until)}, {ends}."
