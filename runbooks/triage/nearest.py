"""Where nothing in a short text is evidence: the causes whose own words are nearest to it, as places to look and never as causes.

A text that says that something is wrong, in words that no signature knows, is answered with these instead of with "nothing".
"""

from functools import lru_cache

from runbooks.triage.block import Block
from runbooks.triage.likeness import Index
from runbooks.triage.load import Rule, RuleSet
from runbooks.triage.model import Near, TriageResult
from runbooks.triage.prose import (
    grumbles,
    is_headline,
    is_prose,
    is_sentence,
    reports_trouble,
    says_calm,
    says_well,
    sounds_well,
)
from runbooks.triage.sameword import tokens
from runbooks.triage.words import words

ASK = "this is told, not shown; if something is wrong, give the error itself, the log's last lines or the command's output."
SHOWN = 3
MOST = 8192  # bytes of a text that a person wrote; more is a log
LINES = 60
FEWEST = 3  # words that are compared
_SCORE = 12.0  # below it a text shares only chance words with a cause
_SURE = 24.0  # above it no chance is left
_SHARE = 0.25  # of the weight of its words, found in the cause's
_CALM = (15.0, 0.3)  # both, for a text without a word of trouble
_OF_BEST = 0.6


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


def with_nearest(outcome: TriageResult, text: str, lib: RuleSet) -> TriageResult:
    """The outcome, with the causes nearest to a short text, or to a long one's lines that fit no cause, where none is named.

    "nothing" for a text that tells of trouble becomes "not-enough"; for a headline that only may tell of some, where one is near.
    """
    if outcome.verdict not in ("nothing", "not-enough"):
        return outcome
    sure = outcome.verdict == "not-enough" or _is_trouble(text)
    if not sure and not _may_be_trouble(text):
        return _asking(outcome, text)
    text = text or "\n".join(line.text for line in outcome.unexplained)
    known = {(c.family, c.slug) for c in outcome.inconclusive}
    found = tuple(
        _near(k) for k in nearest(text, lib, *((_SCORE, _SHARE) if sure else _CALM)) if (k.family, k.slug) not in known
    )
    if not sure and not found:
        return _asking(outcome, text)
    return outcome.model_copy(update={"verdict": "not-enough", "nearest": found})


def _asking(outcome: TriageResult, text: str) -> TriageResult:
    """The outcome with the request for what can be judged, where a person told something and not that all is well."""
    told = (is_headline(text) or is_prose(text)) and is_sentence(text) and not says_well(text)
    return outcome.model_copy(update={"notes": (*outcome.notes, ASK)}) if told else outcome


def _may_be_trouble(text: str) -> bool:
    return is_headline(text) and is_sentence(text) and not says_calm(text) and not sounds_well(text)


def _is_trouble(text: str) -> bool:
    if is_headline(text):
        return grumbles(text) and not says_calm(text)
    return is_prose(text) and reports_trouble(text)


def nearest(text: str, lib: RuleSet, enough: float = _SCORE, much: float = _SHARE) -> tuple[Rule, ...]:
    """Causes by the words that they share with the text, best first; none where these are everyday words."""
    index = _index(lib)
    asked = index.asked(text)
    if len(asked) < FEWEST or not asked & _world():
        return ()
    scores = index.scores(asked)
    least = max(enough, _OF_BEST * scores[0][0]) if scores else 0.0
    found = [lib.causes[i] for score, share, i in scores if score >= least and (score >= _SURE or share >= much)]
    return _each_once(found)[:SHOWN]


@lru_cache(maxsize=1)
def _world() -> frozenset[str]:
    return frozenset(tokens(words()["world"]))


def _each_once(found: list[Rule]) -> tuple[Rule, ...]:
    """Without those that say what one before them says."""
    kept: dict[frozenset[str], Rule] = {}
    for known in found:
        said = frozenset(tokens(known.cause.title))
        if not any(known.slug == k.slug or said <= s or s <= said for s, k in kept.items()):
            kept[said] = known
    return tuple(kept.values())


_kept: dict[int, Index] = {}


def _index(lib: RuleSet) -> Index:
    if id(lib) not in _kept:
        _kept.clear()
        _kept[id(lib)] = Index(lib.causes)
    return _kept[id(lib)]


def _near(known: Rule) -> Near:
    return Near(
        slug=known.slug,
        family=known.family,
        title=known.cause.title,
        runbook=known.cause.runbook,
        target=known.cause.target,
        decided_by=known.cause.decided_by[:2],
    )
