"""What is looked for first in a block: for each pattern the rarest of the texts that it cannot match without."""

from collections.abc import Callable, Iterable, Sequence

from runbooks.triage.trial import Trial
from runbooks.triage.vocabulary import Texts

SAMPLE = 1 << 14  # bytes in which texts are counted, to search for the rarest

More = list[tuple[tuple[bytes, ...], Trial]]  # what else has to stand in the line, and whose text it is


class SearchPlan:
    """Texts to look for, and what each of them is needed for."""

    def __init__(
        self, likely: dict[bytes, dict[bytes, More]], trials: Sequence[Trial], present: frozenset[bytes] | None
    ) -> None:
        self._texts = Texts(likely)
        self._needed = list(likely.values())
        self._count, self._present = len(trials), present

    def fits(self, trials: Sequence[Trial], present: set[bytes] | None) -> bool:
        """Whether it finds all that these trials need in a text with these words, and not much more."""
        if self._present is not None and (present is None or not self._present.issuperset(present)):
            return False
        return len(trials) > self._count * 0.8

    def candidates(self, folded: bytes, wanted: Callable[[Trial], bool]) -> dict[Trial, list[int]]:
        """For each trial the positions of lines in which all texts of one of its options stand, in order."""
        lines = folded.split(b"\n")
        stands = self._texts.stand(folded, lines)
        sets: dict[int, set[int]] = {}
        found: dict[Trial, set[int]] = {}
        for number, needed in enumerate(self._needed):
            if stands[number]:
                for other, more in needed.items():
                    places = self._both(stands, sets, lines, number, other)
                    if places:
                        _add(found, lines, places, more)
        return {trial: sorted(places) for trial, places in found.items() if wanted(trial)}

    def _both(
        self, stands: list[list[int]], sets: dict[int, set[int]], lines: list[bytes], number: int, other: bytes
    ) -> set[int]:
        one = _set(stands, sets, number)
        if not other:
            return one
        second = self._texts.numbers.get(other)
        if second is None:
            return {at for at in one if other in lines[at]}
        return one & _set(stands, sets, second) if stands[second] else set()


def _set(stands: list[list[int]], sets: dict[int, set[int]], number: int) -> set[int]:
    known = sets.get(number)
    if known is None:
        known = sets[number] = set(stands[number])
    return known


def _add(found: dict[Trial, set[int]], lines: list[bytes], places: set[int], more: More) -> None:
    for rest, trial in more:
        left = {at for at in places if all(text in lines[at] for text in rest)} if rest else places
        if left:
            found.setdefault(trial, set()).update(left)


def planned(trials: Sequence[Trial], present: set[bytes] | None, folded: bytes) -> SearchPlan:
    """A plan for a text in which only the words `present` stand (None: not known), and as often as in `folded`."""
    likely: dict[bytes, dict[bytes, More]] = {}
    often = _Often(folded)
    for trial in trials:
        for texts, words in zip(trial.options, trial.words, strict=True):
            if present is None or present.issuperset(words):
                rarest = often.rarest(texts)
                others = tuple(t for t in texts if t != rarest)
                needed = likely.setdefault(rarest, {}).setdefault(others[0] if others else b"", [])
                needed.append((others[1:], trial))
    return SearchPlan(likely, trials, None if present is None else frozenset(present))


class _Often:
    """How often texts stand in a sample."""

    def __init__(self, folded: bytes) -> None:
        self._sample = folded[:SAMPLE]
        self._counts: dict[bytes, int] = {}

    def rarest(self, texts: Iterable[bytes]) -> bytes:
        return min(texts, key=lambda t: (self._count(t), -len(t)))

    def _count(self, text: bytes) -> int:
        known = self._counts.get(text)
        if known is None:
            known = self._counts[text] = self._sample.count(text)
        return known
