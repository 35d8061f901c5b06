"""Which of many texts stand in a text: all of them looked for at once (Aho-Corasick)."""

import re
from collections.abc import Iterable

import ahocorasick

_WORD = re.compile(rb"[a-z]{3,}")
SMALL = 65536  # bytes; below it nothing is gained by taking each word of the text only once


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


class Texts:
    """Texts to look for in lines."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.numbers = {text: number for number, text in enumerate(texts)}
        self._automaton = ahocorasick.Automaton()
        for text, number in self.numbers.items():
            self._automaton.add_word(text.decode("latin-1"), number)
        if self.numbers:
            self._automaton.make_automaton()

    def stand(self, folded: bytes, lines: list[bytes]) -> list[list[int]]:
        """For each text the positions of the lines in which it stands, in order; `folded` is all of them."""
        found: list[list[int]] = [[] for _ in self.numbers]
        if not found:
            return found
        add = [places.append for places in found]
        at, end = -1, -1
        for last, number in self._automaton.iter(folded.decode("latin-1")):
            while last > end:
                at += 1
                end += len(lines[at]) + 1
            add[number](at)
        return found
