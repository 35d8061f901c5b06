"""Many faults far apart in one long log: each is found where it stands, and the others neither hide it nor lend it their words."""

import random
from collections.abc import Iterator

import pytest

from runbooks.triage.text import judge_lines
from tests.corpus.measure import Score, all_scores, meanings
from tests.corpus.test_needle import at_work
from tests.support.soak import record

EACH = 12  # faults in one log
LOGS = 40


def logs(scores: list[Score], chance: random.Random) -> Iterator[tuple[str, list[tuple[Score, range]]]]:
    """(a log, its faults with the lines in which they stand)."""
    gap = "\n".join([at_work(chance)] * 5)
    for first in range(0, EACH * LOGS, EACH):
        lines: list[str] = []
        places: list[tuple[Score, range]] = []
        for score in scores[first : first + EACH]:
            lines += gap.split("\n")
            began = len(lines) + 1
            lines += score.excerpt.text.rstrip("\n").split("\n")
            places.append((score, range(began, len(lines) + 1)))
        yield "\n".join([*lines, gap]), places


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_twelve_faults_in_one_log() -> None:
    chance, same = random.Random(5), meanings()
    alone = [s for s in all_scores() if s.first and s.excerpt.verdict == "causes" and not s.excerpt.facts]
    chance.shuffle(alone)
    lost: list[str] = []
    lent: list[str] = []
    for text, places in logs(alone, chance):
        causes = [c for c in judge_lines(text).causes if not c.benign]
        for score, lines in places:
            here = {c.slug for c in causes if any(line.number in lines for line in c.evidence)}
            if not here & {x for n in score.excerpt.first for x in same.get(n, {n})}:
                lost.append(score.excerpt.id)
            known = {c.slug for c in judge_lines(score.excerpt.text).causes}
            lent += [f"{score.excerpt.id}: {slug}" for slug in here - known]
    assert len(lost) <= 0.03 * EACH * LOGS, lost
    assert len(lent) <= 0.03 * EACH * LOGS, lent
    record(
        "triage_many_faults_in_one_log",
        {"faults": EACH * LOGS, "in_each_log": EACH, "found": EACH * LOGS - len(lost), "lent_causes": len(lent)},
    )
