"""One form for the words in which people say the same thing: endings cut off, synonyms and short forms put together."""

import re
from functools import lru_cache
from importlib import resources
from typing import Any

import ahocorasick

from runbooks.core.distinct import stem
from runbooks.triage.prose import everyday

_LINE = re.compile(r"(?m)^(\w+): '(.*)'$")
_WORD = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]|(?<![\d.])\d{2,5}(?![\d.])")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_APOSTROPHE = re.compile(r"(?<=n)['’](?=t\b)|['’]s\b")
_ENDINGS = (
    *("ations", "ation", "ments", "ment", "ings", "ing", "ions", "ion", "ies", "ied"),
    *("ers", "er", "ed", "es", "s", "e", "y", "able", "ible"),
)
_SHORTEST = 4  # letters that stay of a word


def tokens(text: str) -> list[str]:
    """The words of a text in their one form, in order, without those of everyday."""
    plain = _APOSTROPHE.sub("", _CAMEL.sub(" ", text)).lower()
    return [form for word in _WORD.findall(_spoken(plain)) for form in _forms(word)]


@lru_cache(maxsize=16384)
def _forms(word: str) -> tuple[str, ...]:
    if word in everyday():
        return ()
    same, _ = _table()
    if word in same:
        return (same[word],)
    parts = [p for p in word.split("_") if len(p) > 1] if "_" in word else []
    root = stem(word, _ENDINGS, _SHORTEST)
    return (same.get(root, root), *(f for p in parts for f in _forms(p)))


def form(word: str) -> str:
    """What stands for a word, or the word."""
    return _table()[0].get(word, word)


def says_the_same() -> tuple[str, ...]:
    """All that decides how a text's words are put into one form."""
    return (_synonyms(), *sorted(everyday()))


@lru_cache(maxsize=1)
def _synonyms() -> str:
    return (resources.files("runbooks") / "knowledge" / "synonyms.yaml").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, str], dict[str, str]]:
    """(one word: what stands for it, several words: what stands for them)."""
    text = _synonyms()
    words: dict[str, str] = {}
    phrases: dict[str, str] = {}
    for name, listed in _LINE.findall(text):
        words[name] = f"={name}"
        for said in listed.split(", "):
            (words if _WORD.fullmatch(said) else phrases)[said] = f"={name}" if _WORD.fullmatch(said) else name
    return words, phrases


@lru_cache(maxsize=1)
def _phrases() -> Any:
    automaton = ahocorasick.Automaton()
    for said, name in _table()[1].items():
        automaton.add_word(said, (len(said), name))
    automaton.make_automaton()
    return automaton


def _spoken(text: str) -> str:
    """The text with every phrase of the table replaced, the longest of those that begin at one place."""
    ends = {
        end - size + 1: (end + 1, name)
        for end, (size, name) in _phrases().iter(text)
        if _whole(text, end - size + 1, end + 1)
    }
    parts, at = [], 0
    for start in sorted(ends):
        if start >= at:
            end, name = ends[start]
            parts += [text[at:start], f" {name} "]
            at = end
    return "".join((*parts, text[at:])) if parts else text


def _whole(text: str, start: int, end: int) -> bool:
    return not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())
