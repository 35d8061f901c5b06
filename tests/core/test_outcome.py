"""The table of outcomes, whole: a changed word, severity, code or order is seen here."""

import pytest

from runbooks.core.outcome import Outcome, Severity, outcome_of
from runbooks.core.verdict import State

WORST_FIRST = "waiting not-fixed partly-fixed unfinished sick refused expired rejected cannot-tell cancelled fixed healthy not-applicable"


def test_the_order_and_every_column() -> None:
    assert [o.value for o in sorted([*reversed(Outcome)], key=lambda o: o.rank)] == WORST_FIRST.split()
    types = {o: o.row.state_type for o in Outcome}
    assert {o for o in Outcome if types[o] == "COMPLETED"} == {Outcome.FIXED, Outcome.HEALTHY, Outcome.NOT_APPLICABLE}  # green
    others = {Outcome.WAITING: "PAUSED", Outcome.UNFINISHED: "CRASHED", Outcome.CANCELLED: "CANCELLED"}
    assert {o: t for o, t in types.items() if t not in ("COMPLETED", "FAILED")} == others
    assert {o for o in Outcome if o.row.closing} == {Outcome.FIXED, Outcome.HEALTHY, Outcome.NOT_APPLICABLE}
    assert {o for o in Outcome if o.row.quiet} == {Outcome.HEALTHY, Outcome.NOT_APPLICABLE}
    assert {o: o.exit_code for o in Outcome if o.exit_code != 1} == {
        Outcome.FIXED: 0,
        Outcome.HEALTHY: 0,
        Outcome.NOT_APPLICABLE: 0,
        Outcome.CANNOT_TELL: 3,
        Outcome.REFUSED: 4,
    }
    critical = {o for o in Outcome if o.row.severity is Severity.CRITICAL}
    assert critical == {Outcome.WAITING, Outcome.NOT_FIXED, Outcome.PARTLY_FIXED, Outcome.UNFINISHED}
    info = {o for o in Outcome if not o.row.severity.needs_somebody}
    assert info == {Outcome.REJECTED, Outcome.CANCELLED, Outcome.FIXED, Outcome.HEALTHY, Outcome.NOT_APPLICABLE}


def test_every_outcome_has_words_of_its_own() -> None:
    for column in ("name", "report", "message"):
        words = [getattr(o.row, column) for o in Outcome]
        assert all(words)
        assert len(set(words)) == len(words)


@pytest.mark.parametrize("state", State)
def test_a_look_ends_as_it_judged(state: State) -> None:
    assert outcome_of(state).value == state.value
