"""Headlines are answered as well as they once were: named or near; nothing is named for another world or for what is well."""


import pytest

from runbooks.triage.load import library
from runbooks.triage.nearest import nearest
from tests.corpus.headlines import Answer, answers, headlines
from tests.corpus.measure import meanings
from tests.support.cost import cpu_seconds

JUDGED = ("second", "last")


@pytest.fixture(scope="module")
def judged() -> dict[str, list[Answer]]:
    return {part: answers(part) for part in JUDGED}


def test_of_headlines_never_tuned_to_most_are_named_or_near(judged: dict[str, list[Answer]]) -> None:
    results = [a.result for a in judged["second"] if a.headline.kind == "covered"]
    assert sum(r in ("named right", "near") for r in results) >= 0.68 * len(results)
    assert results.count("named wrong") <= 2
    assert results.count("said to be well") <= 0.18 * len(results)


def test_nothing_is_named_for_another_world_or_what_is_well(judged: dict[str, list[Answer]]) -> None:
    none = [a for part in JUDGED for a in judged[part] if not a.headline.right]
    assert [a.headline.text for a in none if a.named] == []
    near = [a for a in none if a.near and a.headline.kind in ("foreign", "healthy")]
    assert len(near) <= 2
    assert all(a.verdict == "not-enough" for a in near)


def test_the_right_cause_is_among_the_nearest_of_most_headlines_and_quickly() -> None:
    same, lib = meanings(), library()
    nearest("warm up: the gpu is lost", lib)
    covered = [h for h in headlines("first") if h.right]
    hits = sum(any(k.slug in {s for name in h.right for s in same.get(name, {name})} for k in nearest(h.text, lib)) for h in covered)
    assert hits >= 0.72 * len(covered)
    enough = 0.02 * len(covered)  # 0.3 ms each on a quiet machine
    assert cpu_seconds(lambda: [nearest(h.text, lib) for h in covered], enough) < enough
