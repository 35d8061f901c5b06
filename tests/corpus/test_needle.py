"""A fault in the midst of a long log: what was right alone stays right among lines of machines at work."""

import random
import re
from pathlib import Path

import pytest

from runbooks.triage.text import judge_lines
from tests.corpus.measure import Score, all_scores, meanings
from tests.support.soak import record

AT_WORK = Path(__file__).parents[1] / "data" / "at_work"
AROUND = 600  # lines before, and as many after


def at_work(chance: random.Random) -> str:
    """Lines of machines at work, each with other large numbers."""
    lines = "".join(
        (AT_WORK / n).read_text(encoding="utf-8") for n in ("training_node.log", "cluster.log")
    ).splitlines()
    return "\n".join(
        re.sub(r"\d{4,}", lambda _: str(chance.randrange(10**6)), chance.choice(lines)) for _ in range(AROUND)
    )


def first_right(score: Score, before: str, after: str, same: dict[str, frozenset[str]]) -> bool:
    outcome = judge_lines(f"{before}\n{score.excerpt.text}\n{after}", score.excerpt.facts)
    guilty = [c.slug for c in outcome.causes if not c.benign]
    return guilty[:1] != [] and guilty[0] in {s for n in score.excerpt.first for s in same.get(n, {n})}


def share(scores: list[Score]) -> tuple[int, int, list[str]]:
    """(right first, tried, ids that were lost) of excerpts that are right alone."""
    chance = random.Random(3)
    before, after, same = at_work(chance), at_work(chance), meanings()
    alone = [s for s in scores if s.first and s.verdict_right and s.excerpt.verdict == "causes"]
    lost = [s.excerpt.id for s in alone if not first_right(s, before, after, same)]
    return len(alone) - len(lost), len(alone), lost


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_fault_in_long_logs() -> None:
    right, tried, lost = share(all_scores())
    assert right >= tried * 0.95, lost
    record("triage_in_long_logs", {"excerpts": tried, "lines_around": 2 * AROUND, "still_first": right})
