"""Every state that Prefect has, for every kind of run of ours, has somebody who ends it."""

from itertools import product
from pathlib import Path

from prefect.client.schemas.objects import TERMINAL_STATES, StateType

from flows.engine.state_table import TABLE, ReaperDuty, RunKind, states_for
from flows.reaper import HANDLERS


def test_every_state_of_every_kind_of_run_has_a_row_and_its_handler() -> None:
    """A state that a new Prefect brings along fails here, not in an operator's fleet."""
    assert set(TABLE) == set(product(StateType, RunKind))
    assert set(HANDLERS) == set(ReaperDuty)
    assert {row.does for row in TABLE.values()} == set(ReaperDuty)


def test_only_what_has_ended_is_left_alone() -> None:
    for (state, kind), row in TABLE.items():
        ended = state in TERMINAL_STATES
        assert ended or row.does is not ReaperDuty.NOTHING, f"nobody ends a {kind} that is {state}"
        assert row.who, (state, kind)
        assert row.when, (state, kind)


def test_the_reaper_asks_for_every_state_with_which_it_has_something_to_do() -> None:
    asked = {(s, k) for k in RunKind for s in states_for((k,), tuple(d for d in ReaperDuty if d is not ReaperDuty.NOTHING))}
    assert asked == {cell for cell, row in TABLE.items() if row.does is not ReaperDuty.NOTHING}


def test_no_state_is_set_by_force() -> None:
    """A state is changed by Prefect's rules, which let no ended run go on."""
    root = Path(__file__).parents[2]
    sources = [p for room in ("flows", "deployments") for p in (root / room).rglob("*.py")]
    forced = [str(p.relative_to(root)) for p in sources if "force=True" in p.read_text()]
    assert forced == []
