"""Which patterns the lines of a text may hold, by the texts that a pattern cannot match without.

Most lines of a log have the same shape: they are alike but for their digits. Each new shape is folded (lower case, digits
out) and searched once for the texts of all patterns that are still looked for; patterns to which digits make no difference
are then tried on the shape itself.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache

from runbooks.triage.literals import fold
from runbooks.triage.plan import SearchPlan, planned
from runbooks.triage.sieve import Lines
from runbooks.triage.trial import Trial
from runbooks.triage.vocabulary import Vocabulary

REMEMBER = 12 << 20  # bytes of shapes that are remembered
FEW = 100  # patterns for which it is not worth while to find out first which words the text has at all


@lru_cache(maxsize=64)  # as many as narrow.py keeps
def _vocabulary(words: frozenset[bytes]) -> Vocabulary:
    """One for each set of patterns, not for each text."""
    return Vocabulary(words)


class Kinds:
    """What was found out about the shapes of lines."""

    def __init__(self, trials: Iterable[Trial], words: frozenset[bytes] | None = None) -> None:
        self._trials, self._words = tuple(trials), words  # all words of all patterns, where somebody has them already
        self._always = [t for t in self._trials if not t.options]
        self._known: dict[bytes, list[Trial]] = {}
        self._size = 0
        self._plan: SearchPlan | None = None

    def pick(self, shapes: Sequence[bytes], wanted: Callable[[Trial], bool]) -> dict[Trial, list[int]]:
        """The positions of lines that each wanted pattern may match. What is not wanted once never is again."""
        if self._size > REMEMBER:
            self._known.clear()
            self._size = 0
        fresh = set(shapes).difference(self._known)
        if fresh:
            self._learn(list(fresh), wanted, len(shapes))
        known = self._known
        return _by_trial([(at, trials) for at, text in enumerate(shapes) if (trials := known[text])], wanted)

    def forget(self, shape: bytes, trial: Trial) -> None:
        """The pattern matches no line of this shape."""
        if trial in self._known.get(shape, ()):
            self._known[shape].remove(trial)

    def _learn(self, fresh: list[bytes], wanted: Callable[[Trial], bool], lines: int) -> None:
        blob = fold(b"\n".join(fresh))
        self._size += len(blob)
        nothing: list[Trial] = []
        always = [t for t in self._always if wanted(t)]
        self._known.update((line, [*always] if always else nothing) for line in fresh)
        seen = Lines(fresh)
        for trial, places in self._planned(blob, wanted).candidates(blob, wanted).items():
            for at in trial.sifted(seen, places, lines):
                trials = self._known[fresh[at]]
                if trials:
                    trials.append(trial)
                else:
                    self._known[fresh[at]] = [trial]

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        words = self._words if self._words is not None else frozenset(w for t in self._trials for part in t.words for w in part)
        return _vocabulary(words)

    def _planned(self, blob: bytes, wanted: Callable[[Trial], bool]) -> SearchPlan:
        """What to look for: as last time, where that is enough and not much of it has been found since."""
        trials = [t for t in self._trials if wanted(t)]
        present = self._vocabulary.present(blob) if len(trials) > FEW else None
        if self._plan is None or not self._plan.fits(trials, present):
            self._plan = planned(trials, present, blob)
        return self._plan


def _by_trial(picked: list[tuple[int, list[Trial]]], wanted: Callable[[Trial], bool]) -> dict[Trial, list[int]]:
    groups: dict[int, tuple[list[Trial], list[int]]] = {}
    for at, trials in picked:
        group = groups.get(id(trials))
        if group is None:
            trials[:] = filter(wanted, trials)
            group = groups[id(trials)] = (trials, [])
        group[1].append(at)
    places: dict[Trial, list[int]] = {}
    for trials, ats in groups.values():
        for trial in trials:
            places.setdefault(trial, []).extend(ats)
    for ats in places.values():
        ats.sort()
    return places
