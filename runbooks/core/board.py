"""The fleet's landing page as data and as Markdown: what waits for a person, what is wrong, what was not read, what is well."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from runbooks.core.base import Frozen
from runbooks.core.outcome import Outcome
from runbooks.core.show import Markdown, joined, link, markdown, md
from runbooks.core.times import utc

MOST_ROWS = 1000  # a page that a browser still shows; the worst rows come first
MOST_WRONG = 200
LONGEST = 160
Cells = tuple[str, ...]
WHAT, WHEN = ("where", "last verdict", "what was seen"), ("report", "read", "counts until")  # columns of each table of verdicts
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
    since: datetime | None = None  # of a fault: when its target was first found so, and never well since
    costs: str = ""  # what waiting costs, as the report says it

    @property
    def faulty(self) -> bool:
        """Something was found wrong, it was not mended, and the verdict still counts."""
        return not self.stale and (self.outcome.row.wrong or self.outcome is Outcome.WAITING)

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
    """Of each target and runbook the newest. A fault is as old as the first of the verdicts that found one and no well one after it."""
    looks: dict[tuple[str, str, datetime], Verdict] = {}  # one look may be about several things of a target: the worst of these
    for v in verdicts:
        other = looks.setdefault((v.target, v.runbook, v.at), v)
        if _rank(v) < _rank(other):
            looks[v.target, v.runbook, v.at] = v
    found: dict[tuple[str, str], Verdict] = {}
    for v in sorted(looks.values(), key=lambda v: v.at):
        before = found.get((v.target, v.runbook))
        begun = [at for at in (before.since if before else None, v.since, v.at if v.faulty else None) if at]
        since = min(begun, default=None) if v.outcome.exit_code else None
        found[v.target, v.runbook] = v.model_copy(update={"since": since})
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
    bad = sum(v.faulty for v in worst.values())
    untold = sum(not v.stale and not v.faulty and bool(v.outcome.exit_code) for v in worst.values())
    unseen = len(_unseen(board))
    return (
        f"{board.fleet}: {len(board.nodes)} node(s), {bad} with something wrong, {len(board.waiting)} waiting for a person"
        + (f", {untold} that could not be judged" if untold else "")
        + (f", {stale} not read any more" if stale else "")
        + (f", {unseen} never looked at" if unseen else "")
    )


def _unseen(board: Board) -> list[str]:
    seen = {v.target for v in board.verdicts}
    return [n for n in board.nodes if n not in seen]


def next_stale(board: Board) -> datetime | None:
    """When the page says something else although nothing happens: the next of its verdicts no longer counts."""
    return min((v.ends for v in newest(board.verdicts) if v.ends > board.at), default=None)


def render_board(board: Board) -> Markdown:
    """The page."""
    parts = [
        markdown("# Fleet {}", board.fleet),
        markdown("{}. As of {}.", headline(board), utc(board.at)),
        markdown("## What waits for a person"),
        _waiting(board),
        markdown("## What is wrong now"),
        _wrong(board),
        markdown("## What has not been read"),
        _unread(board),
        markdown("## How to run something"),
        how_to_run(board.to_run),
    ]
    if board.nightly:
        parts += [markdown("## Last nightly"), link(board.nightly_said or "its report", board.nightly)]
    return markdown("{}\n", joined("\n\n", [*parts, *_well(board)]))


def _waiting(board: Board) -> Markdown:
    if not board.waiting:
        return markdown("Nothing.")
    rows: list[Cells] = [
        (link(w.target or "decide", w.link), w.runbook, md(w.headline, LONGEST), utc(w.since), utc(w.until) if w.until else "")
        for w in sorted(board.waiting, key=lambda w: w.since)
    ]
    return _table(("decide", "runbook", "what is wrong", "asked", "expires"), rows, MOST_ROWS)


def _known(board: Board) -> list[Verdict]:
    """What the newest verdicts still say, the worst first."""
    return sorted((v.as_of(board.at) for v in newest(board.verdicts)), key=lambda v: (_rank(v), v.target, v.runbook))


def _wrong(board: Board) -> Markdown:
    """Every fault that was found and still counts."""
    bad = [v for v in _known(board) if v.faulty]
    if not bad:
        return markdown("No problem in what was checked.")
    rows = [(*_what(v), utc(v.since or v.at), md(v.costs, 2 * LONGEST), *_when(v)) for v in bad]
    return _table((*WHAT, "since", "what waiting costs", *WHEN), rows, MOST_WRONG)


def _unread(board: Board) -> Markdown:
    """Every verdict that no longer counts or could not be made, then the nodes that have none."""
    left = (v for v in _known(board) if v.outcome.exit_code and not v.faulty)
    rows = [(*_what(v), *_when(v)) for v in left] + [(n, "never looked at", "", "", "", "") for n in _unseen(board)]
    return _table((*WHAT, *WHEN), rows, MOST_ROWS) if rows else markdown("Nothing.")


def how_to_run(things: tuple[Runnable, ...]) -> Markdown:
    """A link to each form, and the same at a terminal."""
    forms = [markdown("- {}: {}", link(t.name, t.link), t.title) for t in things]
    typed = markdown("At a terminal: `gpu-runbooks run RUNBOOK TARGET`; `gpu-runbooks nightly` looks at every node.")
    return joined("\n\n", [*([joined("\n", forms)] if forms else []), typed])


def _well(board: Board) -> list[Markdown]:
    """Every target of which no verdict leaves something to do, folded."""
    well = [v for v in worst_of(v.as_of(board.at) for v in board.verdicts).values() if not v.outcome.exit_code]
    if not well:
        return []
    rows = [(*_what(v), *_when(v)) for v in sorted(well, key=lambda v: (_rank(v), v.target))]
    folded = markdown("<details><summary>{} with nothing wrong</summary>", len(well))
    return [markdown("## What is well"), folded, _table((*WHAT, *WHEN), rows, MOST_ROWS), markdown("</details>")]


def _what(v: Verdict) -> Cells:
    return v.target, v.outcome.row.name.lower(), md(v.headline, LONGEST)


def _when(v: Verdict) -> Cells:
    """Its report, when it was read and until when that counts."""
    return link(v.runbook, v.link) if v.link else v.runbook, utc(v.at), utc(v.ends)


def _table(head: Cells, rows: list[Cells], most: int) -> Markdown:
    left = len(rows) - most
    more = [markdown("\n… and {} more, none worse than these.", left)] if left > 0 else []
    ruler = joined("", [*[markdown("|---")] * len(head), markdown("|")])
    return joined("\n", [_line(head), ruler, *map(_line, rows[:most]), *more])


def _line(cells: Cells) -> Markdown:
    return markdown("| {} |", joined(" | ", map(md, cells)))


def render_fleets(pages: Iterable[tuple[str, str, Markdown]], every: Board) -> Markdown:
    """The first page of a server with several fleets. `pages`: name, path and one line (made here) of each fleet's own page;
    `every`: what runs found wrong, and what waits, in all of them."""
    rows = [markdown("- {}: {}", link(name, path), said) for name, path, said in pages]
    known = [v for v in _known(every) if v.outcome.exit_code]
    parts = [
        markdown("# All fleets"),
        markdown("## What waits for a person"),
        _waiting(every),
        markdown("## What is wrong now"),
        joined("\n", rows),
        *([_wrong(every)] if any(v.faulty for v in known) else []),
        *([markdown("## What has not been read"), _unread(every)] if any(not v.faulty for v in known) else []),
        markdown("## How to run something"),
        how_to_run(every.to_run),
    ]
    return markdown("{}\n", joined("\n\n", parts))
