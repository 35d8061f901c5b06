"""The rules that hold for every judgment, as one wrapper around each runbook's `diagnose`: no caller gets past them. Pure."""

from collections.abc import Callable
from functools import cache, wraps
from typing import TypeVar

from pydantic import BaseModel

from runbooks.core.confirmed import granted
from runbooks.core.covers import covering
from runbooks.core.forbidden import allowed
from runbooks.core.harshness import mildest_first
from runbooks.core.knowledge import Runbook, load_runbook
from runbooks.core.together import together
from runbooks.core.unexplained import explained
from runbooks.core.unread import as_far_as_read
from runbooks.core.verdict import Diagnosis
from runbooks.core.worded import worded

E = TypeVar("E", bound=BaseModel)
L = TypeVar("L")


def by_the_rules(slug: str) -> Callable[[Callable[[E, L], Diagnosis]], Callable[[E, L], Diagnosis]]:
    """What was not read is never well (unread.py), nor what reports a failure that no cause explains (unexplained.py);
    confirmed is what was read and excludes the alternatives (confirmed.py); no plan does what a cause of the same report
    forbids (forbidden.py), nor ends a part of what is at work (together.py); the mildest plan
    for a cause stands first (harshness.py); what is well says what was read (covers.py).
    It is told in words for people (worded.py)."""

    def wrap(judge: Callable[[E, L], Diagnosis]) -> Callable[[E, L], Diagnosis]:
        @wraps(judge)
        def diagnose(evidence: E, limits: L) -> Diagnosis:
            known = book(slug)
            found = explained(known, evidence, judge(evidence, limits))
            found = granted(known, evidence, as_far_as_read(known, evidence, found))
            return worded(known, covering(evidence, mildest_first(together(allowed(known, found)))))

        return diagnose

    return wrap


@cache
def book(slug: str) -> Runbook:
    """The runbook's knowledge, read once."""
    return load_runbook(slug)
