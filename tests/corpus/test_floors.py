"""Triage may not judge the corpus worse than it once did, and never gives harmful advice."""

import pytest

from tests.corpus.measure import Score, all_scores, excerpts, summary


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return all_scores()


def test_the_corpus_is_large_enough_and_a_part_is_held_apart() -> None:
    every = excerpts()
    assert len(every) >= 400
    assert 0.15 < sum(e.held for e in every) / len(every) < 0.35


@pytest.mark.parametrize(("held", "first", "two", "open_"), [(False, 0.95, 0.97, 0.95), (True, 0.85, 0.87, 0.85)])
def test_floors(scores: list[Score], held: bool, first: float, two: float, open_: float) -> None:
    found = summary([s for s in scores if s.excerpt.held is held])
    assert found["first"] >= first
    assert found["two"] >= two
    assert found["not_enough"] >= open_


def test_no_harmful_advice(scores: list[Score]) -> None:
    assert [(s.excerpt.id, s.harmful) for s in scores if s.harmful] == []
