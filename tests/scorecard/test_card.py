"""The card says what was done, and names what was not: each runbook that acts and each kind of action stands in it."""

from typing import Any

import pytest

from flows.engine.actions import ACTIONS
from runbooks.core.knowledge import load_runbook
from tests.scorecard.__main__ import acting_runbooks, markdown, replaced, summarise
from tests.scorecard.notes import NO_FAULT, STAND_INS


def note(*acted: tuple[str, str], fault: str = "SIGKILL of the run", held: bool = True, tries: int = 1) -> dict[str, Any]:
    """What a test noted."""
    return {"test": "tests/x.py::test_x[1]", "held": held, "faults": [(fault, "acted")], "acted": list(acted), "tries": tries}


def test_tries_and_broken_promises_add_up() -> None:
    one = ("ray-job", "stop-ray-job")
    (line,) = summarise([note(one), note(one, held=False), note(one, tries=20)])["lines"]
    assert (line["tries"], line["broken"], line["tests"]) == (22, 1, ["tests/x.py::test_x"])


def test_a_test_that_ran_again_counts_as_it_came_then() -> None:
    """Once, and the page names it; the audits of both runs count."""
    one = ("ray-job", "stop-ray-job")
    first = [note(one, held=False), {"audit": {}}, {**note(one), "test": "tests/y.py::test_y"}]
    notes, again = replaced(first, [[note(one), {"audit": {}}]])
    assert [n["held"] for n in notes if "test" in n] == [True, True]
    assert sum("audit" in n for n in notes) == 2
    assert again == ["tests/x.py::test_x[1]"]
    card = summarise([n for n in notes if "test" in n]) | {"again": again}
    assert "They failed in the whole run, ran again alone, and count as they came then: `tests/x.py::test_x[1]`." in markdown(card, "whole")


def test_every_runbook_that_acts_is_in_it_measured_or_not() -> None:
    card = summarise([note(("ray-job", "stop-ray-job"))])
    page = markdown(card, "whole")
    assert "zombie-gpu" in acting_runbooks()
    for slug in acting_runbooks():
        kinds = set(load_runbook(slug).actions) - ({"stop-ray-job"} if slug == "ray-job" else set())
        assert set(card["not_measured_in"][slug]) == kinds
        assert (f"| {slug} | **nothing was measured**" in page) == (slug != "ray-job")
    assert set(card["not_measured"]) == {k for k in ACTIONS if not k.startswith("toy-")} - {"stop-ray-job"}


@pytest.mark.parametrize(("runbook", "fault"), [(STAND_INS, "killed"), ("(toy)", "killed"), ("zombie-gpu", NO_FAULT)])
def test_what_stands_in_for_a_runbook_or_meets_no_fault_measures_none(runbook: str, fault: str) -> None:
    card = summarise([note((runbook, "terminate-processes"), fault=fault)])
    assert "terminate-processes" in card["not_measured_in"]["zombie-gpu"]
