"""Which causes' own words are nearest to a text: Okapi BM25 over title, names, explanation, readings, examples and patterns."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from runbooks.core.knowledge import Signature
from runbooks.triage.cache import digest_of, keep, kept
from runbooks.triage.load import Rule
from runbooks.triage.sameword import form, says_the_same, tokens

FORMAT = 1  # of the cache file, and of how words are taken apart
Words = tuple[
    dict[str, dict[int, float]], list[float]
]  # (how often each word stands in each cause, how long each cause is)
_K1, _B = 1.2, 0.5
_KNOWN = 6  # letters from which a word that no cause has is taken for a misspelt one
_BREAK = "zqbreakzq"
_SIGNS = re.compile(r"\(\?[a-z]+\)|\\[a-zA-Z]|\[[^\]]*\]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Index:
    """The words of every cause; kept in the user's cache folder until they change."""

    def __init__(self, causes: tuple[Rule, ...]) -> None:
        self.count = len(causes)
        fields = [[text_of(known) for known in causes] for _, text_of in _FIELDS]
        digest = digest_of((FORMAT, says_the_same(), [weight for weight, _ in _FIELDS], fields))
        self.found, self.long = _kept(digest) or _made(fields, digest)

    def asked(self, text: str) -> set[str]:
        """The words of a text, misspelt ones put right."""
        return {self._spelt(word) for word in tokens(text)}

    def scores(self, asked: set[str]) -> list[tuple[float, float, int]]:
        """(BM25, share of the weight of all that is asked for, cause) of those that have one of the words, best first."""
        score: dict[int, float] = defaultdict(float)
        share: dict[int, float] = defaultdict(float)
        for word in asked:
            rare = self._rare(word)
            for i, times in self.found.get(word, {}).items():
                score[i] += rare * times * (_K1 + 1) / (times + self.long[i])
                share[i] += rare
        whole = sum(map(self._rare, asked)) or 1.0
        return sorted(((s, share[i] / whole, i) for i, s in score.items()), key=lambda x: (-x[0], x[2]))

    def _rare(self, word: str) -> float:
        n = len(self.found.get(word, ()))
        return math.log(1 + (self.count - n + 0.5) / (n + 0.5))

    def _spelt(self, word: str) -> str:
        if word in self.found or len(word) < _KNOWN or not word.isalpha():
            return word
        known = [w for w in map(form, _one_off(word)) if w in self.found]
        return max(known, key=lambda w: (len(self.found[w]), w)) if known else word


def _kept(digest: str) -> Words | None:
    if (text := kept("nearest", digest)) is None:
        return None
    data = json.loads(text)
    return {word: dict(zip(*of, strict=True)) for word, of in data["found"].items()}, data["long"]


def _made(fields: list[list[str]], digest: str) -> Words:
    found: dict[str, dict[int, float]] = defaultdict(dict)
    sizes = [0.0] * len(fields[0])
    for (weight, _), texts in zip(_FIELDS, fields, strict=True):
        for i, words in enumerate(_split(texts)):
            sizes[i] += len(words) * weight
            for word in words:
                found[word][i] = found[word].get(i, 0.0) + weight
    usual = sum(sizes) / max(len(sizes), 1)
    long = [_K1 * (1 - _B + _B * size / usual) for size in sizes]
    plain = {"found": {word: [list(of), list(of.values())] for word, of in found.items()}, "long": long}
    keep("nearest", digest, json.dumps(plain).encode())
    return found, long


def _one_off(word: str) -> set[str]:
    cuts = [(word[:i], word[i:]) for i in range(1, len(word) + 1)]
    less = {a + b[1:] for a, b in cuts if b}
    swapped = {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}
    return less | swapped | {a + c + r for a, b in cuts for c in _LETTERS for r in (b, b[1:])}


def _split(texts: Iterable[str]) -> list[list[str]]:
    """The words of each text; all are taken apart at once, because each time costs."""
    parts: list[list[str]] = [[]]
    for word in tokens(f" . {_BREAK} . ".join(texts)):
        if word == _BREAK:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _names(known: Rule) -> str:
    return f"{' '.join(sorted(known.names))} ".replace("-", " ")


def _of_signatures(part: Callable[[Signature], str]) -> Callable[[Rule], str]:
    return lambda known: " \n ".join(part(s) for s in known.cause.signatures)


_FIELDS: tuple[tuple[float, Callable[[Rule], str]], ...] = (
    (4, lambda known: known.cause.title),
    (2, lambda known: f"{_names(known)} \n {known.cause.explanation}"),
    (1, lambda known: " \n ".join(known.cause.decided_by)),
    (1, _of_signatures(lambda s: s.example)),
    (0.5, lambda known: known.family.replace("-", " ")),
    (0.5, _of_signatures(lambda s: _SIGNS.sub(" ", s.pattern or ""))),
)
