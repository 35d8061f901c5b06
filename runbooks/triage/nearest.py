"""Where nothing in a short text is evidence: the causes whose own words are nearest to it, as places to look and never as causes.

Okapi BM25 over title, explanation, readings and examples of every cause. A text that says that something is wrong, in words that no
signature knows, is answered with these instead of with "nothing found wrong".
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

from runbooks.core.distinct import stem
from runbooks.triage.block import Block
from runbooks.triage.load import Known, Library
from runbooks.triage.model import Near, Outcome
from runbooks.triage.told import everyday, is_told, tells_of_trouble

SHOWN = 3
MOST = 8192  # bytes of a text that a person wrote; more is a log
LINES = 60
FEWEST = 5  # words that are compared
_K1, _B = 1.2, 0.5
_SCORE, _SURE = (
    12.0,
    22.0,
)  # below the first a text shares only chance words with a cause; above the second no chance is left
_SHARE = 0.28  # of the weight of its words, found in the cause's
_OF_BEST = 0.6
_WORD = re.compile(r"[a-z][a-z0-9_]+|(?<![\d.])\d{2,4}(?![\d.])")


class Opening:
    """The first bytes of a text, and whether it is short enough to be a person's."""

    def __init__(self) -> None:
        self.data, self.whole = b"", True

    def take(self, block: Block) -> None:
        """A block of the text."""
        self.whole = self.whole and len(self.data) + len(block.data) <= MOST
        if self.whole:
            self.data += block.data + b"\n"

    @property
    def text(self) -> str:
        """The text; empty for a long one."""
        short = self.whole and self.data.count(b"\n") <= LINES
        return self.data.decode("utf-8", "replace") if short else ""


def with_nearest(outcome: Outcome, text: str, lib: Library) -> Outcome:
    """The outcome, with the causes nearest to a short text, or to a long one's lines that fit no cause, where none is named.

    "nothing" for a text that tells of trouble becomes "not-enough".
    """
    if outcome.verdict not in ("nothing", "not-enough"):
        return outcome
    if outcome.verdict == "nothing" and not (is_told(text) and tells_of_trouble(text)):
        return outcome
    text = text or "\n".join(line.text for line in outcome.unexplained)
    known = {(c.family, c.slug) for c in outcome.undecided}
    found = tuple(_near(k) for k in nearest(text, lib) if (k.family, k.slug) not in known)
    return outcome.model_copy(update={"verdict": "not-enough", "nearest": found})


def nearest(text: str, lib: Library) -> tuple[Known, ...]:
    """Causes by the words that they share with the text, best first; none where these are everyday words."""
    asked = set(_words(text))
    if len(asked) < FEWEST:
        return ()
    index = _index(lib)
    scores = sorted(((index.score(asked, i), -i) for i in range(len(lib.causes))), reverse=True)
    least = max(_SCORE, _OF_BEST * scores[0][0])
    found = [-i for score, i in scores if score >= least and (score >= _SURE or index.share(asked, -i) >= _SHARE)]
    return tuple({lib.causes[i].slug: lib.causes[i] for i in reversed(found)}.values())[::-1][:SHOWN]


class _Index:
    def __init__(self, lib: Library) -> None:
        self.documents = [Counter(_document(known)) for known in lib.causes]
        self.sizes = [d.total() for d in self.documents]
        self.usual = sum(self.sizes) / max(len(self.sizes), 1)
        self.spread = Counter(word for d in self.documents for word in d)

    def score(self, asked: set[str], i: int) -> float:
        """BM25 of document `i`."""
        document, long = self.documents[i], _K1 * (1 - _B + _B * self.sizes[i] / self.usual)
        return sum(self._rare(w) * document[w] * (_K1 + 1) / (document[w] + long) for w in asked if w in document)

    def share(self, asked: set[str], i: int) -> float:
        """Of the weight of the words that are asked for, how much is in document `i`."""
        return sum(self._rare(w) for w in asked if w in self.documents[i]) / sum(self._rare(w) for w in asked)

    def _rare(self, word: str) -> float:
        n = self.spread[word]
        return math.log(1 + (len(self.documents) - n + 0.5) / (n + 0.5))


_kept: dict[int, _Index] = {}


def _index(lib: Library) -> _Index:
    if id(lib) not in _kept:
        _kept.clear()
        _kept[id(lib)] = _Index(lib)
    return _kept[id(lib)]


def _document(known: Known) -> Iterator[str]:
    cause = known.cause
    for text, times in ((cause.title, 3), (known.slug.replace("-", " "), 2), (cause.explanation, 2)):
        yield from list(_words(text)) * times
    for text in (*cause.decided_by, cause.remedy, *(s.example for s in cause.signatures)):
        yield from _words(text)


def _words(text: str) -> Iterator[str]:
    common = everyday()
    return (stem(w) for w in _WORD.findall(text.lower()) if w not in common)


def _near(known: Known) -> Near:
    return Near(
        slug=known.slug,
        family=known.family,
        title=known.cause.title,
        runbook=known.cause.runbook,
        target=known.cause.target,
        decided_by=known.cause.decided_by[:2],
    )
