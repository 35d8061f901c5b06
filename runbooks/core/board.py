"""The fleet's landing page as data and as Markdown: every node, its last verdict, its report, what waits for a person."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from runbooks.core.base import Frozen
from runbooks.core.outcome import Outcome
from runbooks.core.show import Markdown, joined, link, markdown, md
from runbooks.core.times import utc

MOST_ROWS = 1000  # a page that a browser still shows; the worst rows come first
MOST_WRONG = 200
LONGEST = 160
COUNTS_FOR = timedelta(hours=26)
"""How long a verdict counts: until the next nightly is over. Where a schedule looks more often, two of its periods."""


class Verdict(Frozen):
    """The outcome of one runbook on one target."""

    target: str
    runbook: str
    outcome: Outcome
    headline: str
    at: datetime
    until: datetime | None = None  # how long it counts; None: COUNTS_FOR
    stale: bool = False  # it does not count any more: nothing was read since
    link: str = ""  # path of the report in the server's UI
    run: str = ""

    @property
    def ends(self) -> datetime:
        """From then on it says nothing of how things are."""
        return self.until or self.at + COUNTS_FOR

    def as_of(self, now: datetime) -> "Verdict":
        """What is known now: a verdict that is too old is no longer well, and a fault that it named may still be there."""
        if now < self.ends:
            return self
        outcome = Outcome.CANNOT_TELL if self.outcome.exit_code == 0 else self.outcome
        was = f"not read since {utc(self.at)}; then {self.outcome.row.name.lower()}: {self.headline}"
        return self.model_copy(update={"outcome": outcome, "headline": was, "stale": True})


class Waiting(Frozen):
    """A run that waits for a person."""

    target: str
    runbook: str
    headline: str
    since: datetime
    until: datetime | None
    link: str  # path of the run in the server's UI


class Runnable(Frozen):
    """Something that a person can start from the page."""

    name: str
    title: str
    link: str  # path of its form in the server's UI


class Board(Frozen):
    """One fleet at one moment."""

    fleet: str
    at: datetime
    nodes: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    to_run: tuple[Runnable, ...] = ()
    nightly: str = ""  # path of the last nightly's page, and what it said
    nightly_said: str = ""


def newest(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Of each target and runbook the newest."""
    found: dict[tuple[str, str], Verdict] = {}
    for v in sorted(verdicts, key=lambda v: v.at):
        found[v.target, v.runbook] = v
    return tuple(found.values())


def worst_of(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """Of each target the worst of its newest verdicts: a healthy check never hides a fault another runbook saw."""
    found: dict[str, Verdict] = {}
    for v in newest(verdicts):
        other = found.get(v.target)
        if other is None or (_rank(v), -v.at.timestamp()) < (_rank(other), -other.at.timestamp()):
            found[v.target] = v
    return found


def _rank(verdict: Verdict) -> int:
    return verdict.outcome.rank


def headline(board: Board) -> str:
    """One line for the artifact list."""
    worst = worst_of(v.as_of(board.at) for v in board.verdicts)
    stale = sum(v.stale for v in worst.values())
    bad = sum(1 for v in worst.values() if v.outcome.exit_code == 1)
    unseen = len([n for n in board.nodes if n not in worst])
    return (
        f"{board.fleet}: {len(board.nodes)} node(s), {bad} with something wrong, {len(board.waiting)} waiting for a person"
        + (f", {stale} not read any more" if stale else "")
        + (f", {unseen} never looked at" if unseen else "")
    )


def next_stale(board: Board) -> datetime | None:
    """When the page says something else although nothing happens: the next of its verdicts no longer counts."""
    return min((v.ends for v in newest(board.verdicts) if v.ends > board.at), default=None)


def render_board(board: Board) -> Markdown:
    """The page."""
    parts = [
        markdown("# Fleet {}", board.fleet),
        markdown("{}. As of {}.", headline(board), utc(board.at)),
        markdown("## What is wrong now"),
        _wrong(board),
        markdown("## What waits for a person"),
        _waiting(board),
        markdown("## How to run something"),
        how_to_run(board.to_run),
        markdown("## All nodes"),
        _nodes(board),
    ]
    if board.nightly:
        parts += [markdown("## Last nightly"), link(board.nightly_said or "its report", board.nightly)]
    return markdown("{}\n", joined("\n\n", parts))


def _waiting(board: Board) -> Markdown:
    if not board.waiting:
        return markdown("Nothing.")
    rows = [
        markdown(
            "| {} | {} | {} | {} | {} |",
            link(w.target or "decide", w.link),
            w.runbook,
            md(w.headline, LONGEST),
            utc(w.since),
            utc(w.until) if w.until else "",
        )
        for w in sorted(board.waiting, key=lambda w: w.since)
    ]
    head = markdown("| decide | runbook | what is wrong | asked | expires |\n|---|---|---|---|---|")
    return joined("\n", [head, *rows[:MOST_ROWS]])


def _wrong(board: Board) -> Markdown:
    """Every newest verdict that leaves something to do, the worst first."""
    now = (v.as_of(board.at) for v in newest(board.verdicts))
    bad = sorted((v for v in now if v.outcome.exit_code), key=lambda v: (_rank(v), v.target, v.runbook))
    if not bad:
        return markdown("No problem in what was checked.")
    head = markdown("| where | last verdict | what was seen | report | when | counts until |\n|---|---|---|---|---|---|")
    more = [markdown("\n… and {} more, none worse than these.", len(bad) - MOST_WRONG)] if len(bad) > MOST_WRONG else []
    return joined("\n", [head, *map(_row, bad[:MOST_WRONG]), *more])


def how_to_run(things: tuple[Runnable, ...]) -> Markdown:
    """A link to each form, and the same at a terminal."""
    forms = [markdown("- {}: {}", link(t.name, t.link), t.title) for t in things]
    typed = markdown("At a terminal: `gpu-runbooks run RUNBOOK TARGET`; `gpu-runbooks nightly` looks at every node.")
    return joined("\n\n", [*([joined("\n", forms)] if forms else []), typed])


def _nodes(board: Board) -> Markdown:
    worst = worst_of(v.as_of(board.at) for v in board.verdicts)
    seen = sorted(worst.values(), key=lambda v: (_rank(v), v.target))
    rows = [_row(v) for v in seen]
    rows += [markdown("| {} | never looked at |  |  |  |  |", n) for n in board.nodes if n not in worst]
    left = len(rows) - MOST_ROWS
    head = markdown("| node | last verdict | what was seen | report | when | counts until |\n|---|---|---|---|---|---|")
    more = [markdown("\n… and {} more, none worse than these.", left)] if left > 0 else []
    return joined("\n", [head, *rows[:MOST_ROWS], *more])


def _row(v: Verdict) -> Markdown:
    report = link(v.runbook, v.link) if v.link else md(v.runbook)
    name = v.outcome.row.name.lower()
    return markdown("| {} | {} | {} | {} | {} | {} |", v.target, name, md(v.headline, LONGEST), report, utc(v.at), utc(v.ends))


def render_fleets(pages: Iterable[tuple[str, str, Markdown]], every: Board) -> Markdown:
    """The first page of a server with several fleets. `pages`: name, path and one line (made here) of each fleet's own page;
    `every`: what runs found wrong, and what waits, in all of them."""
    rows = [markdown("- {}: {}", link(name, path), said) for name, path, said in pages]
    parts = [
        markdown("# All fleets"),
        markdown("## What is wrong now"),
        joined("\n", rows),
        *([_wrong(every)] if any(v.as_of(every.at).outcome.exit_code for v in newest(every.verdicts)) else []),
        markdown("## What waits for a person"),
        _waiting(every),
        markdown("## How to run something"),
        how_to_run(every.to_run),
    ]
    return markdown("{}\n", joined("\n\n", parts))
