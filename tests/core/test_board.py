"""The fleet's landing page: every node on it, the worst first, nothing from the world acts as markup."""

from datetime import UTC, datetime, timedelta

import pytest

from runbooks.core.board import (
    COUNTS_FOR,
    MOST_ROWS,
    Board,
    Runnable,
    Verdict,
    Waiting,
    headline,
    next_stale,
    render_board,
    worst_of,
)
from runbooks.core.outcome import Outcome

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def verdict(target: str, outcome: Outcome, runbook: str = "zombie-gpu", hours: int = 0, text: str = "seen") -> Verdict:
    return Verdict(
        target=target, runbook=runbook, outcome=outcome, headline=text, at=AT + timedelta(hours=hours), link="/artifacts/key/k"
    )


def test_newest_per_runbook_and_the_worst_of_these() -> None:
    found = worst_of([
        verdict("a", Outcome.UNHEALTHY), verdict("a", Outcome.FIXED, hours=1), verdict("a", Outcome.HEALTHY, "ray-job", 2),
        verdict("b", Outcome.UNHEALTHY, "data-check"), verdict("b", Outcome.HEALTHY, hours=3),
    ])  # fmt: skip
    assert found["a"].outcome is Outcome.FIXED
    assert found["b"].outcome is Outcome.UNHEALTHY  # another runbook's healthy does not hide it


def test_page_shows_every_node_and_who_is_waited_for() -> None:
    board = Board(
        fleet="eu|1", at=AT, nodes=("a", "b", "c"),
        verdicts=(verdict("a", Outcome.HEALTHY), verdict("b", Outcome.UNHEALTHY, text="GPU 0 <b>lost</b> | x")),
        waiting=(
            Waiting(target="b", runbook="zombie-gpu", headline="stuck", since=AT, until=AT + timedelta(hours=4),
                    link="/v2/runs/flow-run/r1"),
        ),
        to_run=(Runnable(name="zombie-gpu", title="Zombie GPU", link="/v2/deployments/deployment/d1/run"),),
        nightly="/artifacts/key/nightly-eu", nightly_said="1 of 3 nodes",
    )  # fmt: skip
    page = render_board(board)
    order = ["## What is wrong now", "| b | something is wrong |", "## What waits for a person", "## How to run something", "## All nodes"]
    assert [page.index(part) for part in order] == sorted(page.index(part) for part in order)
    assert "- [zombie-gpu](/v2/deployments/deployment/d1/run): Zombie GPU" in page
    rows = page.split("## All nodes")[1]
    assert rows.index("| b |") < rows.index("| a |") < rows.index("| c |")
    assert "| c | never looked at |" in rows
    assert "[b](/v2/runs/flow-run/r1)" in page
    assert "2026-03-04 09:06:07 UTC" in page
    assert "<b>" not in page
    assert "eu\\|1" in page
    assert headline(board) == "eu|1: 3 node(s), 1 with something wrong, 1 waiting for a person, 1 never looked at"


def test_page_is_bounded_and_drops_only_the_best() -> None:
    many = [verdict(f"n{i:05}", Outcome.HEALTHY) for i in range(5000)]
    board = Board(fleet="f", at=AT, nodes=(), verdicts=(*many, verdict("worst", Outcome.NOT_FIXED)))
    page = render_board(board)
    assert page.index("worst") < page.index("n00000")
    assert f"… and {5001 - MOST_ROWS} more" in page
    assert len(page) < 400_000


def aged(board: Board, age: timedelta) -> Board:
    return board.model_copy(update={"at": AT + age})


def test_no_verdict_outlives_its_reading() -> None:
    """What was well is not well any more; what was wrong stays wrong, and says since when nobody looked."""
    board = Board(
        fleet="f", at=AT, nodes=("a", "b", "c"),
        verdicts=(verdict("a", Outcome.HEALTHY), verdict("b", Outcome.UNHEALTHY, text="GPU 0 lost"),
                  verdict("c", Outcome.HEALTHY).model_copy(update={"until": AT + timedelta(minutes=10)})),
    )  # fmt: skip
    fresh, minutes, days = board, aged(board, timedelta(minutes=11)), aged(board, COUNTS_FOR + timedelta(seconds=1))
    assert "not read" not in render_board(fresh)
    assert next_stale(fresh) == AT + timedelta(minutes=10)
    assert "| c | cannot tell | not read since 2026-03-04 05:06:07 UTC; then healthy: seen |" in render_board(minutes)
    assert "| a | healthy | seen |" in render_board(minutes)
    assert next_stale(minutes) == AT + COUNTS_FOR
    page = render_board(days)
    assert page.count("| a | cannot tell | not read since") == 2, "among what is wrong, and among the nodes"
    assert "| b | something is wrong | not read since 2026-03-04 05:06:07 UTC; then something is wrong: GPU 0 lost |" in page
    assert "| healthy |" not in page
    assert next_stale(days) is None
    assert headline(days) == "f: 3 node(s), 1 with something wrong, 0 waiting for a person, 3 not read any more"


@pytest.mark.parametrize("outcome", Outcome)
def test_a_verdict_that_is_too_old_is_never_green(outcome: Outcome) -> None:
    old = verdict("a", outcome).as_of(AT + COUNTS_FOR)
    assert old.stale
    assert old.outcome.exit_code
    assert old.outcome.row.state_type != "COMPLETED"
    assert old.headline.startswith("not read since 2026-03-04 05:06:07 UTC; then ")
    assert verdict("a", outcome).as_of(AT + COUNTS_FOR - timedelta(seconds=1)) == verdict("a", outcome)
