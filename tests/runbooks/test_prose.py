"""What is known of a cause is read once: its sentences are short enough for 3 a.m., and its words are common ones."""

import re
from collections.abc import Iterable, Iterator

import pytest

from runbooks.core.knowledge import CauseKnowledge, Runbook, load_runbook, runbook_slugs
from runbooks.triage.load import library
from tests.support.prose import CODE, LONGEST, WORDS, length, sentences

ODD = {re.compile(rf"(?i)\b(?:{pattern})\b"): better for pattern, better in {
    r"mend(?:s|ed|ing)?": "fix",
    r"(?:broken|broke) off": "was interrupted",
    r"(?:is|are) well(?! known)": "is healthy",
    r"(?:not|no|never) (?:[\w']+ ){1,6}any more": "no longer",
    r"(?:does|do|did) not go (?:on|round)": "makes no progress",
    r"takes itself for|take it for": "treat as",
    r"unasked|unseen": "without asking, without a look",
}.items()}  # fmt: skip
PLAIN = WORDS | ODD
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


def of_cause(cause: CauseKnowledge) -> Iterator[str]:
    yield from (cause.title, cause.explanation, cause.remedy, *cause.decided_by, *cause.must_not, *cause.excluded_by)


def of_runbook(book: Runbook) -> Iterator[str]:
    """What runbook.yaml says besides its causes."""
    yield from (book.title, book.summary, book.target, book.scenario, *book.symptoms)
    yield from (text for option in book.options.values() for text in (option.title, option.help))
    yield from (limit.source for limit in book.limits.values())


def odd_ones(texts: Iterable[str]) -> list[str]:
    """Each word that an on-call engineer would not use, with a better one; code is left out."""
    plain = [CODE.sub("Code", text) for text in texts]
    return [f"{m[0]!r}, better {better!r}: {text}" for text in plain for p, better in PLAIN.items() if (m := p.search(text))]


def test_what_is_known_of_a_cause_is_said_in_common_words() -> None:
    """Those of families as well."""
    texts = [text for known in library().causes for text in of_cause(known.cause)]
    assert len(texts) > 2000
    assert odd_ones(texts) == []


@pytest.mark.parametrize("slug", runbook_slugs())
def test_the_rest_of_a_runbook_is_said_in_common_words(slug: str) -> None:
    assert odd_ones(of_runbook(load_runbook(slug))) == []


def test_odd_words_are_seen() -> None:
    said = ["It goes on.", "Mend the image.", "The image is not on the node any more.", "It says `goes on`.", "The image is gone."]
    assert [line.rpartition(": ")[2] for line in odd_ones(said)] == said[:3]
