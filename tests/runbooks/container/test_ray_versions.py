"""What Ray itself prints where head and worker differ in version: recorded from a real head of 2.60.0."""

from pathlib import Path

import pytest

from runbooks.triage.text import first_cause, judge_lines

DATA = Path(__file__).parents[2] / "data/ray"


@pytest.mark.parametrize("name", ["start-2.58-at-2.60", "status-2.58-at-2.60"])
def test_it_says_so(name: str) -> None:
    lines = tuple((DATA / f"{name}.txt").read_text().splitlines())
    assert first_cause(lines, ("container-death/version-mismatch",)) is not None
    assert judge_lines(lines).causes[0].slug == "version-mismatch"


def test_far_apart_it_speaks_as_if_the_head_were_gone() -> None:
    """Nothing of versions in it: the head is named with what decides, and a mismatch is not made up."""
    lines = tuple((DATA / "start-2.44-at-2.60.txt").read_text().splitlines())
    found = judge_lines(lines).causes
    assert [c.slug for c in found] == ["head-gone"], found
    assert "Ray's version on both sides" in str(found[0])
