"""The fleet's landing page: every node on it, what waits first and what is well last, nothing from the world acts as markup."""

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
    newest,
    next_stale,
    render_board,
    render_fleets,
    worst_of,
)
from runbooks.core.outcome import Outcome
from runbooks.core.show import markdown

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


PARTS = ("## What waits for a person", "## What is wrong now", "## What has not been read", "## How to run something", "## What is well")


def parts_of(page: str) -> dict[str, str]:
    """Each part of a page by its heading; the parts stand in the order of PARTS."""
    places = [page.index(part) for part in PARTS if part in page]
    assert places == sorted(places)
    there = [part for part in PARTS if part in page]
    return {part: page[at:end] for part, at, end in zip(there, places, [*places[1:], len(page)], strict=True)}


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
    waits, wrong, unread, forms, well = (parts_of(page)[part] for part in PARTS)
    assert "[b](/v2/runs/flow-run/r1)" in waits
    assert "2026-03-04 09:06:07 UTC" in waits
    assert "| b | something is wrong |" in wrong
    assert "| c | never looked at |" in unread
    assert "- [zombie-gpu](/v2/deployments/deployment/d1/run): Zombie GPU" in forms
    assert "<details><summary>1 with nothing wrong</summary>" in well
    assert "| a | healthy |" in well
    assert [page.count(f"| {n} | ") for n in "abc"] == [1, 1, 1]
    assert "<b>" not in page
    assert "eu\\|1" in page
    assert headline(board) == "eu|1: 3 node(s), 1 with something wrong, 1 waiting for a person, 1 never looked at"


def test_what_is_wrong_says_since_when_and_what_waiting_costs() -> None:
    costs = "1 GPU not working (GPU 0); 2.40 per hour for job train (1 GPU at 2.40)"
    board = Board(
        fleet="f", at=AT + timedelta(hours=9), nodes=("a",),
        verdicts=(verdict("a", Outcome.UNHEALTHY), verdict("a", Outcome.CANNOT_TELL, hours=1),
                  verdict("a", Outcome.NOT_FIXED, hours=8).model_copy(update={"costs": costs})),
    )  # fmt: skip
    wrong = parts_of(render_board(board))["## What is wrong now"]
    assert f"| a | not fixed | seen | 2026-03-04 05:06:07 UTC | {costs} | " in wrong


SPELLS = {
    "the first": ("x", 0),
    "goes on": ("xxx", 0),
    "unread in between": ("x?x", 0),
    "only unread since": ("x?", 0),
    "began while nobody could tell": ("?x", 1),
    "came back": ("x.x", 2),
    "a person is asked": ("w", 0),
    "well": ("x.", None),
    "unread": (".?", None),
}


@pytest.mark.parametrize(("marks", "hour"), SPELLS.values(), ids=SPELLS.keys())
def test_since_when_a_fault_is_there(marks: str, hour: int | None) -> None:
    made = {"x": Outcome.UNHEALTHY, ".": Outcome.HEALTHY, "?": Outcome.CANNOT_TELL, "w": Outcome.WAITING}
    (found,) = newest([verdict("a", made[mark], hours=n) for n, mark in enumerate(marks)])
    assert found.since == (None if hour is None else AT + timedelta(hours=hour))


@pytest.mark.parametrize("turn", [1, -1])
def test_one_look_at_several_things_of_a_target_is_as_bad_as_the_worst(turn: int) -> None:
    """Two containers of a node: the healthy one neither hides the other's fault nor ends it."""
    look = [verdict("a", Outcome.UNHEALTHY, "container-death", 1), verdict("a", Outcome.HEALTHY, "container-death", 1)][::turn]
    (found,) = newest([*look, verdict("a", Outcome.UNHEALTHY, "container-death")])
    assert (found.outcome, found.since) == (Outcome.UNHEALTHY, AT)


def test_page_is_bounded_and_drops_only_the_best() -> None:
    many = [verdict(f"n{i:05}", Outcome.HEALTHY) for i in range(5000)]
    board = Board(fleet="f", at=AT, nodes=(), verdicts=(*many, verdict("worst", Outcome.NOT_FIXED)))
    page = render_board(board)
    assert page.index("worst") < page.index("n00000")
    assert f"… and {5000 - MOST_ROWS} more" in page
    assert len(page) < 400_000


def test_the_page_of_all_fleets_has_the_same_order() -> None:
    every = Board(
        fleet="f", at=AT, nodes=(), verdicts=(verdict("a of f", Outcome.UNHEALTHY), verdict("b of g", Outcome.CANNOT_TELL)),
        waiting=(Waiting(target="a of f", runbook="r", headline="h", since=AT, until=None, link="/v2/runs/flow-run/r1"),),
    )  # fmt: skip
    found = parts_of(render_fleets([("f", "/v2/artifacts/artifact/1", markdown("one line"))], every))
    assert list(found) == list(PARTS[:-1])
    assert "| a of f | something is wrong |" in found[PARTS[1]]
    assert "| b of g | cannot tell |" in found[PARTS[2]]


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
    unread = parts_of(page)["## What has not been read"]
    assert "| a | cannot tell | not read since" in unread
    assert "| b | something is wrong | not read since 2026-03-04 05:06:07 UTC; then something is wrong: GPU 0 lost |" in unread
    assert "No problem in what was checked." in page, "nobody knows what is wrong now"
    assert "| healthy |" not in page
    assert next_stale(days) is None
    assert headline(days) == "f: 3 node(s), 0 with something wrong, 0 waiting for a person, 3 not read any more"


@pytest.mark.parametrize("outcome", Outcome)
def test_a_verdict_that_is_too_old_is_never_green(outcome: Outcome) -> None:
    old = verdict("a", outcome).as_of(AT + COUNTS_FOR)
    assert old.stale
    assert old.outcome.exit_code
    assert old.outcome.row.state_type != "COMPLETED"
    assert old.headline.startswith("not read since 2026-03-04 05:06:07 UTC; then ")
    assert verdict("a", outcome).as_of(AT + COUNTS_FOR - timedelta(seconds=1)) == verdict("a", outcome)
