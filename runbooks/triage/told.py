"""Whether a person tells what is wrong, in sentences: by the rows of runbooks/knowledge/words.yaml."""

import re
from functools import lru_cache

from runbooks.triage.words import words

_FEWEST = 6  # words in which something can be told
_PROSE, _SENTENCE, _LINES = (
    0.7,
    0.15,
    0.8,
)  # shares of a told text: words, words of the everyday, words in lines that say something
_PLAIN = re.compile(r"[\"'(]*[A-Za-z][A-Za-z'’-]*[.,;:!?)\"']*")


def is_told(text: str) -> bool:
    """Whether a person wrote it: nearly all of it is words, in lines of some length, and enough are those that only sentences have."""
    tokens, common = text.split(), everyday()
    if sum(n for n in (len(line.split()) for line in text.splitlines()) if n >= _FEWEST) < _LINES * len(tokens):
        return False
    plain = [t for t in tokens if _PLAIN.fullmatch(t)]
    small = sum(t.strip("\"'().,;:!?").lower() in common for t in plain)
    return len(tokens) >= _FEWEST and len(plain) >= _PROSE * len(tokens) and small >= _SENTENCE * len(tokens)


def tells_of_trouble(text: str) -> bool:
    """Whether it says that something is wrong, and not only that nothing is."""
    return bool(_said("trouble").search(undenied(" ".join(text.split()))))


def undenied(text: str) -> str:
    """The text without the words that say that something did not go wrong ("no errors", "nothing failed")."""
    return _said("no_trouble").sub(" ", text)


@lru_cache(maxsize=1)
def everyday() -> frozenset[str]:
    """Words that sentences have and faults do not."""
    return frozenset(words()["everyday"].removeprefix("(?:").removesuffix(")").split("|"))


@lru_cache(maxsize=2)
def _said(name: str) -> re.Pattern[str]:
    return re.compile(f"(?i){words()[name]}")
