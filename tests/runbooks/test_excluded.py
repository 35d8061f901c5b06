"""What excludes an alternative is looked at: its reading, put into a situation of the cause, takes the cause away.

test_confirmed.py holds that a cause falls when that reading is lost; here it was made, and says something else. Where one
reading alone cannot say the alternative, what else the alternative rests on comes with it, but nothing on which the cause
rests. Of a cause that is at most likely it is enough that the alternative is told beside it. Of an alternative that is no cause
itself, alternatives.yaml names the situations in which it is so. `python -m tests.runbooks.transplant` publishes the counts.
"""

from typing import Any

import pytest
from pydantic import BaseModel

from runbooks.core.knowledge import runbook_slugs
from runbooks.core.verdict import Diagnosis
from tests.runbooks.every import Situation, situations
from tests.runbooks.transplant import (
    IN_WORDS,
    Found,
    Pair,
    Shown,
    in_words,
    pairs,
    published,
    put,
    shown,
    tried,
    unshown,
)

LEAST = 450  # alternatives; fewer would hide what is not excluded
KILLED = Pair("container-death", "killed-from-outside", "oom-container", "ooms")


@pytest.mark.parametrize("slug", runbook_slugs())
def test_what_excludes_an_alternative_is_looked_at(slug: str) -> None:
    """Every pair. Else the judge must look at it, runbook.yaml must name the right reading, or a situation is missing."""
    assert unshown(slug) == []


class Deaf(Situation):
    """Judged as before, whatever else was read: a path on which the alternative is never looked at."""

    def judge(self, evidence: BaseModel | None = None) -> Diagnosis:
        return Situation(*self).judge(self.evidence)


def test_a_judge_that_does_not_look_is_found() -> None:
    found = tried(KILLED)
    assert found.shown is Shown.RIVAL
    a, b = (by_title(title, slug) for title, slug in ((found.of, KILLED.cause), (found.by, KILLED.rival)))
    assert shown(KILLED, a, b, together=False) is Shown.RIVAL
    deaf = Found(Deaf(*a.case), a.cause)
    assert shown(KILLED, deaf, b, together=False) is Shown.NOT


def test_only_that_reading_changes() -> None:
    """What is put in is the other's, and all the rest is as it was."""
    found = tried(KILLED)
    a, b = by_title(found.of, KILLED.cause), by_title(found.by, KILLED.rival)
    mixed: Any = put(a, b, ["ooms"])
    other: Any = b.case.evidence
    assert mixed.ooms == other.ooms
    assert mixed.model_copy(update={"ooms": a.case.evidence.ooms}) == a.case.evidence  # type: ignore[attr-defined]
    assert put(a, a, ["ooms"]) is None


def by_title(title: str, slug: str) -> Found:
    (case,) = [s for s in situations() if (s.runbook, s.title) == (KILLED.runbook, title)]
    (cause,) = [c for c in case.judge().causes if c.slug == slug]
    return Found(case, cause)


@pytest.mark.parametrize("slug", runbook_slugs())
def test_the_words_are_those_of_the_runbook(slug: str) -> None:
    """Each alternative in words has its situations; and each name there is one."""
    here = {s.title for s in situations() if s.runbook == slug}
    named = IN_WORDS.get(slug, {})
    assert set(named) == {p.rival for p in pairs(slug) if in_words(p)}
    assert {t for titles in named.values() for t in titles} <= here
    assert all(named.values()), "an alternative without a situation"


def test_what_is_published_is_what_the_runbooks_say() -> None:
    """How many alternatives there are: each is proven."""
    every = [p for slug in runbook_slugs() for p in pairs(slug)]
    said = published()
    assert (said["all"], said["proven"]) == (len(every), len(every)), "run python -m tests.runbooks.transplant"
    assert len(every) >= LEAST
