"""Which of the words that patterns need stand in a text: all of them looked for at once (Aho-Corasick)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import ahocorasick

_WORD = re.compile(rb"[a-z]{3,}")
SMALL = 65536  # bytes; below it nothing is gained by taking each word of the text only once
T = TypeVar("T")


class Vocabulary:
    """Words to look for, in one automaton."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._automaton = ahocorasick.Automaton()
        for word in words:
            if word:
                self._automaton.add_word(word.decode("latin-1"), word)
        if len(self._automaton):
            self._automaton.make_automaton()

    def present(self, folded: bytes) -> set[bytes]:
        """Those that stand anywhere in the folded text, also inside longer words; and the empty word."""
        if not len(self._automaton):
            return {b""}
        words = folded if len(folded) < SMALL else b" ".join(set(_WORD.findall(folded)))
        return {b"", *(word for _, word in self._automaton.iter(words.decode("latin-1")))}


def stand(texts: Mapping[bytes, T], folded: bytes) -> Iterator[tuple[int, T]]:
    """(position of its last byte, what it is mapped to) of every text that stands in `folded`, in order."""
    automaton = ahocorasick.Automaton()
    for text, value in texts.items():
        automaton.add_word(text.decode("latin-1"), value)
    if len(automaton):
        automaton.make_automaton()
        yield from automaton.iter(folded.decode("latin-1"))
