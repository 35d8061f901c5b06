"""Steps that should have been saved and are on no tier: by the usual distance of the saves, or the one that the fleet file names."""

from collections import Counter
from itertools import pairwise

from runbooks.checkpoint.copies import all_copies
from runbooks.checkpoint.evidence import Evidence
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.reading import Unknown
from runbooks.core.verdict import Cause, Certainty

NEWEST = 10  # distances between the newest saves that are compared: older ones may be thinned out on purpose
FEW = 3  # distances that make a habit
STOPPED = 3  # saves that are due and missing at the end before they are called stopped
SHOWN = 5


def gap_causes(evidence: Evidence, config: Checkpoints) -> tuple[Cause, ...]:
    """At most one cause. Nothing is said where a tier could not be read: the step may lie there."""
    steps = sorted({c.candidate.step for c in all_copies(evidence)})
    if not steps or any(isinstance(t.candidates, Unknown) for t in evidence.tiers):
        return ()
    every = config.interval_steps or _usual(steps)
    if not every:
        return ()
    due = ((evidence.crashed_step or 0) - steps[-1]) // every
    missing = _missing(steps[-NEWEST - 1 :], every)
    if due >= STOPPED:
        words = f"the log reaches step {evidence.crashed_step}, the newest save of any kind is step {steps[-1]}, one is due every {every}"
        ask = "the log's lines about the saves after that step"
        return (_cause(evidence, Certainty.LIKELY, (words, f"{due} saves are missing at the end"), ask),)
    if missing:
        words = f"saves lie {every} steps apart; missing between others: {', '.join(map(str, missing[:SHOWN]))}"
        ask = "whether they failed or retention removed them: the log at those steps"
        return (_cause(evidence, Certainty.POSSIBLE, (words,), ask),)
    return ()


def _cause(evidence: Evidence, certainty: Certainty, words: tuple[str, ...], decides: str) -> Cause:
    return Cause(slug="save-gap", certainty=certainty, subject=f"saves of {evidence.node}", evidence=words, decides=(decides,))


def _usual(steps: list[int]) -> int:
    """The distance that most of the newest saves have, 0 if there is none."""
    distances = Counter(b - a for a, b in pairwise(steps[-NEWEST - 1 :]))
    every, count = distances.most_common(1)[0] if distances else (0, 0)
    return every if count >= FEW and 2 * count > distances.total() else 0


def _missing(steps: list[int], every: int) -> list[int]:
    return [n for a, b in pairwise(steps) if (b - a) % every == 0 for n in range(a + every, b, every)]
