"""New, gone, persisting, flapping, and never gone only because it could not be read."""

import pytest

from runbooks.core.nightly import Change, NightlyReport, compare
from runbooks.core.nightly import Result as R
from runbooks.core.outcome import Outcome
from runbooks.core.render_nightly import nightly_headline
from tests.core.nights import BEFORE, TONIGHT, night, result

CASES: dict[str, tuple[str, Change | None, int]] = {
    # a letter a night, tonight last: x there, . not there, ? not read, ! not read and called possible, - not run;
    # then the change, nights of the spell
    "first night": ("x", Change.FIRST, 1),
    "new": ("..x", Change.NEW, 1),
    "second night": (".xx", Change.PERSISTING, 2),
    "from the beginning": ("xxx", Change.PERSISTING, 3),
    "gone": (".x.", Change.GONE, 1),
    "long gone": ("x..", None, 0),
    "never": ("...", None, 0),
    "came back": ("x.x", Change.FLAPPING, 1),
    "flaps, now away": ("x.x.", Change.FLAPPING, 1),
    "not read tonight": (".x?", Change.NOT_SEEN, 1),
    "not run tonight": (".x-", Change.NOT_SEEN, 1),
    "only possible tonight": ("xx!", Change.NOT_SEEN, 2),
    "only possible in between": ("x!x", Change.PERSISTING, 2),
    "only possible before": (".!x", Change.NEW, 1),
    "never more than possible": ("!!", None, 0),
    "blind in between": ("x?x", Change.PERSISTING, 2),
    "blind before": (".?x", Change.NEW, 1),
    "only blind before": ("?x", Change.NEW, 1),
    "gone after blind": ("x?.", Change.GONE, 1),
    "beyond the look-back": ("x..........x", Change.NEW, 1),
}


def look(mark: str) -> tuple[R, ...]:
    made = {"x": result("a", "orphan"), ".": result("a"), "?": result("a", outcome=Outcome.CANNOT_TELL),
            "!": result("a", "orphan", outcome=Outcome.CANNOT_TELL)}  # fmt: skip
    return (made[mark],) if mark in made else ()


@pytest.mark.parametrize(("marks", "change", "nights"), CASES.values(), ids=CASES.keys())
def test_change(marks: str, change: Change | None, nights: int) -> None:
    history = [night(i, *look(mark)) for i, mark in enumerate(marks[:-1])]
    found = compare(list(reversed(history)), look(marks[-1]), night(len(marks)).started_at)
    assert [(t.change, t.nights) for t in found] == ([(change, nights)] if change else [])


def test_fixed_is_not_a_fault() -> None:
    assert compare([], [result("a", "orphan", outcome=Outcome.FIXED)], TONIGHT.started_at) == ()


def test_one_fault_per_node_and_cause() -> None:
    both = compare([], [result("a", "orphan", "gpu-lost"), result("b", "orphan")], TONIGHT.started_at)
    assert {(t.node, t.cause) for t in both} == {("a", "orphan"), ("a", "gpu-lost"), ("b", "orphan")}


def test_tonight() -> None:
    assert {t.node: t.change for t in TONIGHT.troubles} == {
        "a": Change.PERSISTING,
        "b": Change.FLAPPING,
        "c": Change.NEW,
        "d": Change.NOT_SEEN,
        "e": Change.GONE,
    }
    assert TONIGHT.outcome is Outcome.UNHEALTHY
    assert (
        nightly_headline(TONIGHT) == "3 of 5 nodes need a person; 1 could not be read in full; 1 quarantined; no answer from database"
    )


@pytest.mark.parametrize(
    ("report", "outcome"),
    [
        (night(0, result("a")), Outcome.HEALTHY),
        (night(0, result("a", outcome=Outcome.NOT_APPLICABLE)), Outcome.NOT_APPLICABLE),
        (night(0, result("a"), result("b", outcome=Outcome.CANNOT_TELL)), Outcome.CANNOT_TELL),
        (night(0, result("a", "orphan"), result("b", outcome=Outcome.CANNOT_TELL)), Outcome.UNHEALTHY),
        (TONIGHT.model_copy(update={"results": (result("a"),)}), Outcome.CANNOT_TELL),  # a system does not answer
    ],
)
def test_outcome_is_the_worst(report: NightlyReport, outcome: Outcome) -> None:
    assert report.outcome is outcome


def test_history_order_does_not_matter() -> None:
    at = TONIGHT.started_at
    assert compare(BEFORE, TONIGHT.results, at) == compare(tuple(reversed(BEFORE)), TONIGHT.results, at)
