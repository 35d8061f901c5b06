"""Which patterns the lines of a text may hold, by the texts that a pattern cannot match without.

Most lines of a log have the same shape: they are alike but for their digits. Each new shape is folded (lower case, digits
out) and searched once for the texts of all patterns that are still looked for.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from runbooks.triage.literals import fold
from runbooks.triage.trial import Trial
from runbooks.triage.vocabulary import Vocabulary, stand

REMEMBER = 12 << 20  # bytes of shapes that are remembered
SAMPLE = 1 << 16  # bytes in which texts are counted, to search for the rarest
FEW = 100  # patterns for which it is not worth while to find out first which words the text has at all

More = list[tuple[tuple[bytes, ...], Trial]]  # what else has to stand in the line, and whose text it is


@lru_cache(maxsize=64)  # as many as narrow.py keeps
def _vocabulary(words: frozenset[bytes]) -> Vocabulary:
    """One for each set of patterns, not for each text."""
    return Vocabulary(words)


class Kinds:
    """What was found out about the shapes of lines."""

    def __init__(self, trials: Iterable[Trial]) -> None:
        self._trials = tuple(trials)
        self._always = [t for t in self._trials if not t.options]
        self._vocabulary = _vocabulary(frozenset(w for t in self._trials for part in t.words for w in part))
        self._known: dict[bytes, list[Trial]] = {}
        self._size = 0
        self._often: dict[bytes, int] = {}
        self._rare: dict[tuple[bytes, ...], bytes] = {}

    def pick(self, shapes: Sequence[bytes], wanted: Callable[[Trial], bool]) -> list[tuple[int, list[Trial]]]:
        """(position, patterns) of the lines that may hold any that is wanted. What is not wanted once never is again.

        Whoever finds that a pattern cannot stand in lines of this shape, or is not wanted any more, takes it off the list.
        """
        if self._size > REMEMBER:
            self._known.clear()
            self._size = 0
        fresh = set(shapes).difference(self._known)
        if fresh:
            self._learn(list(fresh), wanted)
        known = self._known
        return [(at, trials) for at, text in enumerate(shapes) if (trials := known[text])]

    def _learn(self, fresh: list[bytes], wanted: Callable[[Trial], bool]) -> None:
        blob = fold(b"\n".join(fresh))
        self._size += len(blob)
        matched = _candidates(blob.split(b"\n"), blob, self._likely(blob, wanted))
        always = [t for t in self._always if wanted(t)]
        nothing: list[Trial] = []
        for at, line in enumerate(fresh):
            trials = matched.get(at)
            self._known[line] = [*dict.fromkeys(trials or ()), *always] if trials or always else nothing

    def _likely(self, blob: bytes, wanted: Callable[[Trial], bool]) -> dict[bytes, dict[bytes, More]]:
        """The rarest text of each option that may stand somewhere; what else it needs in its line, the longest first."""
        trials = [t for t in self._trials if wanted(t)]
        present = self._vocabulary.present(blob) if len(trials) > FEW else None
        found: dict[bytes, dict[bytes, More]] = {}
        for trial in trials:
            for texts, words in zip(trial.options, trial.words, strict=True):
                if present is None or present.issuperset(words):
                    rarest = self._rarest(texts, blob)
                    others = tuple(t for t in texts if t != rarest)
                    found.setdefault(rarest, {}).setdefault(others[0] if others else b"", []).append(
                        (others[1:], trial)
                    )
        return found

    def _rarest(self, texts: tuple[bytes, ...], blob: bytes) -> bytes:
        """By a sample of the text in which they first stood."""
        rarest = self._rare.get(texts)
        if rarest is None:
            for text in texts:
                if text not in self._often:
                    self._often[text] = blob.count(text, 0, SAMPLE)
            rarest = self._rare[texts] = min(texts, key=lambda t: (self._often[t], -len(t)))
        return rarest


def _candidates(lines: list[bytes], blob: bytes, likely: dict[bytes, dict[bytes, More]]) -> dict[int, list[Trial]]:
    """For each line (by position) the patterns whose texts all stand in it. One pass for all texts."""
    found: dict[int, list[Trial]] = {}
    at, end, line = -1, -1, b""
    for last, wanted in stand(likely, blob):
        while last > end:
            at += 1
            line = lines[at]
            end += len(line) + 1
        for other, more in wanted.items():
            if other in line:
                _add(found, at, line, more)
    return found


def _add(found: dict[int, list[Trial]], at: int, line: bytes, more: More) -> None:
    for rest, trial in more:
        for text in rest:
            if text not in line:
                break
        else:
            found.setdefault(at, []).append(trial)
