"""What is known of a cause is read once: its sentences are short enough for 3 a.m., and its words are common ones."""

import pytest

from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.triage.load import library
from tests.support.prose import CODE, LONGEST, WORDS, length, sentences

PLAIN = [p for p, better in WORDS.items() if better in ("fix", "started", "again", "forever")]
ROOM = 4  # words of a subject, which stands before a remedy: "container c0ffee00aa11: …"


def long_ones(text: str, longest: int = LONGEST) -> list[str]:
    """Its sentences that are too long; a piece of code counts as one word."""
    return [f"{length(s)} words: {s}" for s in sentences(CODE.sub("Code", text)) if length(s) > longest]


@pytest.mark.parametrize("slug", runbook_slugs())
def test_what_is_known_of_a_cause_is_read_once(slug: str) -> None:
    found = []
    for cause in load_runbook(slug).causes.values():
        for text in (cause.title, cause.explanation, cause.remedy, *cause.decided_by, *cause.must_not):
            found += long_ones(text)
        first = next(sentences(CODE.sub("Code", cause.remedy)), "")
        found += long_ones(first, LONGEST - ROOM)
    assert found == []


def test_what_is_known_of_a_cause_is_said_in_common_words() -> None:
    """Those of families as well."""
    causes = [k.cause for k in library().causes]
    texts = [t for c in causes for t in (c.title, c.explanation, c.remedy, *c.decided_by, *c.must_not)]
    assert len(texts) > 2000
    assert [t for t in texts if any(p.search(CODE.sub("Code", t)) for p in PLAIN)] == []
