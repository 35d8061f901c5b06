"""The counts of the incidents: the worst test of each, and in words that any on-call engineer reads once."""

import re
from typing import Any

from tests.incidents.__main__ import BY_HAND, HERE, noted, parts, published, told, told_unseen
from tests.support.prose import blocks, faults


def line(ident: str, came: str, **more: Any) -> dict[str, Any]:
    return {"id": ident, "came": came, "fed": "readers", "known": True, "held": True, "test": f"tests/x.py::{ident}"} | more


def test_an_incident_counts_with_its_worst_test() -> None:
    """A test that failed counts as wrong; a twin and an invented incident have counts of their own."""
    lines = [
        line("A", "right"), line("A", "right", held=False), line("B", "right"), line("B", "open"), line("C", "harmful", known=False),
        line("N", "right", first="wrong"), line("A", "right", twin="x"), line("A", "right", twin="y", held=False),
        *(line(f"H{n}", "right", fed="evidence") for n in range(40)),
    ]  # fmt: skip
    text = told(lines)
    assert "| in sight when its judge was written or changed | 42 | 40 | 1 | 0 | 1 | 0 |" in text
    assert "| not in sight | 1 | 0 | 0 | 0 | 0 | 1 |" in text
    assert "| invented beside them, at first sight | 1 | 0 | 0 | 0 | 1 | 0 |" in text
    assert "Twins: 2 tried, 1 with" in text
    assert "- A: wrong (`tests/x.py::A`)" in text
    assert faults(blocks(text)) == []


def test_an_unseen_incident_keeps_its_first_sight() -> None:
    """It is counted with those of its round, with what came at first sight and what comes today."""
    more = {"source": "https://example.org/1", "runbook": "ray-job", "fed": "evidence", "round": 1}
    lines = [
        line("P1", "right", first="harmful", said="To end it.", **more), line("P2", "blind", first="blind", said="Nothing.", **more),
        line("P3", "right", first="right", said="", **more),
        line("P4", "open", first="open", said="Another.", outside="likely", first_outside="confirmed", **more),
        line("R1", "right", first="wrong", said="Another.", **more | {"round": 2}),
        line("R2", "right", first="right", said="", **more | {"round": 2}),
        line("S1", "open", first="open", said="Cannot tell.", **more | {"round": 3}),
    ]  # fmt: skip
    text = told_unseen(lines)
    assert "| first round, at first sight | 4 | 1 | 1 | 1 | 0 | 1 |" in text
    assert "| first round, today | 4 | 2 | 1 | 1 | 0 | 0 |" in text
    assert "| first round, at first sight, strictly | 4 | 1 | 0 | 1 | 1 | 1 |" in text
    assert "| first round, today, strictly | 4 | 2 | 1 | 1 | 0 | 0 |" in text, "likely is not confirmed"
    assert "| wrong, strictly | at most 5 % | 1 of 4, 25.0 % | 0 of 4, 0.0 % |" in text
    assert "| wrong, strictly, also likely ones | at most 5 % | 1 of 4, 25.0 % | 1 of 4, 25.0 % |" in text
    assert "| right or honestly open, strictly | at least 85 % | 1 of 4, 25.0 % | 3 of 4, 75.0 % |" in text
    assert "| second round, at first sight | 2 | 1 | 0 | 0 | 1 | 0 |" in text
    assert "| second round, today | 2 | 2 | 0 | 0 | 0 | 0 |" in text
    assert "| third round, at first sight | 1 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| harmful | 0 % | 1 of 4, 25.0 % | 0 of 4, 0.0 % | 0 of 2, 0.0 % | 0 of 2, 0.0 % | 0 of 1, 0.0 % | 0 of 1, 0.0 % |" in text
    assert "| right or honestly open | at least 85 % | 2 of 4, 50.0 % | 3 of 4, 75.0 % | 1 of 2, 50.0 % | 2 of 2, 100.0 % | 1 of 1" in text
    assert "| [P1](https://example.org/1) | `ray-job` | harmful | right | To end it. |" in text
    assert text.endswith("### Not right yet\n\n- P2: blind (`tests/x.py::P2`)\n")
    assert faults(blocks(text)) == []


def undated(text: str) -> str:
    return re.sub(r"Measured \d{4}-\d\d-\d\d", "Measured", text)


def test_what_is_published_is_what_the_tests_hold() -> None:
    """Every mark says what its test asserts: RESULTS.md says the same of each incident."""
    code, lines = noted("--collect-only", "-n", "0", "-p", "no:cacheprovider", str(HERE / "incidents"))
    assert code == 0
    for begin, text, end in parts(lines):
        assert undated(published(begin, end)) == undated(text), "run: python -m tests.incidents --write"
    by_hand = {x["id"] for x in lines if x["fed"] == "evidence" and not {"twin", "first"} & set(x)}
    assert by_hand == set(BY_HAND), "an incident of a collection that no reader is fed with has its reason"
