"""Whether a person tells what is wrong, in sentences: by the rows of runbooks/knowledge/words.yaml."""

import re
from functools import lru_cache

from runbooks.triage.words import words

_FEWEST = 6  # words in which something can be told
_PROSE, _SENTENCE, _LINES = 0.7, 0.15, 0.8  # shares of a told text: words, words of the everyday, words in lines of some length
_HEAD, _FEW, _MANY, _WORDS = 3, 3, 60, 0.5  # a headline: lines at most, tokens at least and at most, share of words
# columns, fields, times: printed
_FORM = re.compile(r"\S {2,}\S+ {2,}\S|\t| \| |(?m:^\d{4}-\d\d-\d\d|^\[?\d\d:\d\d:\d\d|^\S+\[\d+\]:)")
_BUT = re.compile(
    r"(?i)\b(?:but|though|although|yet|then|none|older|others?|the rest|elsewhere|no good|stopped working)\b|\?\s*$"
)
_PLAIN = re.compile(r"[\"'(]*[A-Za-z][A-Za-z'’-]*[.,;:!?)\"']*")


def is_prose(text: str) -> bool:
    """Whether a person wrote it: nearly all of it is words, in lines of some length, and enough are those that only sentences have."""
    tokens, common = text.split(), everyday()
    if sum(n for n in (len(line.split()) for line in text.splitlines()) if n >= _FEWEST) < _LINES * len(tokens):
        return False
    plain = [t for t in tokens if _PLAIN.fullmatch(t)]
    small = sum(t.strip("\"'().,;:!?").lower() in common for t in plain)
    return len(tokens) >= _FEWEST and len(plain) >= _PROSE * len(tokens) and small >= _SENTENCE * len(tokens)


def is_headline(text: str) -> bool:
    """Whether it is one or two sentences, as typed into a pager or a chat: few lines, and most of it words and not a log's form."""
    lines = [line for line in text.splitlines() if line.strip()]
    tokens = text.split()
    plain = [t for t in tokens if _PLAIN.fullmatch(t)]
    short = 0 < len(lines) <= _HEAD and _FEW <= len(tokens) <= _MANY
    return short and len(plain) >= _WORDS * len(tokens) and not _FORM.search(text)


def is_sentence(text: str) -> bool:
    """Whether it has words that only sentences have."""
    return sum(t.strip("\"'().,;:!?").lower() in everyday() for t in text.split()) >= _SENTENCE * len(text.split())


def grumbles(text: str) -> bool:
    """Whether a headline says in any way that something is wrong."""
    if reports_trouble(text):
        return True
    return bool(_pattern("grumble").search(undenied(" ".join(text.split())))) and not says_well(text)


def says_well(text: str) -> bool:
    """Whether a headline says that all is well, and nothing against it."""
    line = " ".join(text.split())
    return bool(_pattern("well").search(line)) and not _BUT.search(undenied(line))


def sounds_well(text: str) -> bool:
    """Whether a headline has a word of what is well or done."""
    line = " ".join(text.split())
    return bool(_pattern("well").search(line) or _pattern("up").search(line))


def reports_trouble(text: str) -> bool:
    """Whether it says that something is wrong, and not only that nothing is."""
    return bool(_pattern("trouble").search(undenied(" ".join(text.split()))))


def undenied(text: str) -> str:
    """The text without the words that say that something did not go wrong ("no errors", "nothing failed")."""
    return _pattern("no_trouble").sub(" ", text)


def says_calm(text: str) -> bool:
    """Whether it announces, asks how to, or says that what is seen is meant."""
    return bool(_pattern("calm").search(" ".join(text.split())))


@lru_cache(maxsize=1)
def everyday() -> frozenset[str]:
    """Words that sentences have and faults do not."""
    return frozenset(words()["everyday"].removeprefix("(?:").removesuffix(")").split("|"))


@lru_cache(maxsize=8)
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(f"(?i){words()[name]}")
