"""The counts of the incidents: the worst test of each, and in words that any on-call engineer reads once."""

from typing import Any

from tests.incidents.__main__ import told
from tests.support.prose import blocks, faults


def line(ident: str, came: str, **more: Any) -> dict[str, Any]:
    return {"id": ident, "came": came, "fed": "readers", "known": True, "held": True, "test": f"tests/x.py::{ident}", **more}


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
