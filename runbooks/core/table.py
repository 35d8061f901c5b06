"""Tables of what was read, as people look at them: each runbook declares its own, and here they are put in order and cut.

A table judges nothing. What the judgment says of a row's subject is added as its last column, and decides which row is worst.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from runbooks.core.clean import one_line
from runbooks.core.judgment import tier
from runbooks.core.knowledge import CauseKnowledge
from runbooks.core.times import utc
from runbooks.core.verdict import Cause, Certainty

MOST = 15  # design: rows of one table; a person looks at the first ones
WIDEST = 140  # design: columns of a row, so that its Markdown stays below 200 characters
BARS = "▁▂▃▄▅▆▇█"
BARS_MOST = 12  # design: of one line; more samples share a bar
GAP = 2


class EvidenceRow(NamedTuple):
    """One row: cells of any type, escaped where they are shown."""

    cells: tuple[Any, ...]  # as many as the head has, or fewer
    about: tuple[str, ...] = ()  # names by which a cause's subject calls it: "GPU 0", "pid 4242"
    cites: str = ""  # of several rows with one name, the cause is about the one that its evidence quotes so
    worse: float = 0.0  # the greater the worse, among rows of which the judgment says the same


class EvidenceTable(NamedTuple):
    """One table of a report."""

    title: str
    head: tuple[str, ...]
    rows: tuple[EvidenceRow, ...]
    in_order: bool = False  # steps of a walk or events: the worst does not come first


def row(*cells: Any, about: str | Iterable[str] = (), cites: str = "", worse: float = 0.0) -> EvidenceRow:
    """A row with these cells."""
    names = (about,) if isinstance(about, str) else about
    return EvidenceRow(cells, tuple(filter(None, names)), cites, float(worse))


def table(title: str, head: str, rows: Iterable[EvidenceRow], in_order: bool = False) -> EvidenceTable:
    """A table whose columns are named in one text: "GPU | model | power"."""
    return EvidenceTable(title, tuple(head.split(" | ")), tuple(rows), in_order)


class ShownTable(NamedTuple):
    """The table as the report shows it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int  # rows that only the JSON has


def arranged(made: EvidenceTable, causes: Sequence[Cause], known: dict[str, CauseKnowledge], most: int = MOST) -> ShownTable:
    """The table with the worst rows first, with what the judgment says of each, without empty columns, and at most so long and wide.

    Without a column it says nothing."""
    said = [_verdict(one, causes) for one in made.rows]
    order = list(range(len(said)))
    if not made.in_order:
        order.sort(key=lambda i: (_rank(said[i]), -made.rows[i].worse))
    head = (*made.head, "verdict")
    lines = [(*_filled(made.rows[i].cells, len(made.head)), _words(said[i], known)) for i in order[:most]]
    kept = [i for i in range(len(head)) if any(line[i] for line in lines)]
    rows = [[line[i] for i in kept] for line in lines]
    widths = _widths([[head[i] for i in kept], *rows])
    shown = tuple(tuple(_cut(c, width) for c, width in zip(one, widths, strict=True)) for one in rows)
    return ShownTable(made.title, tuple(head[i] for i in kept), shown, len(order) - len(shown))


def _filled(cells: Sequence[Any], count: int) -> tuple[str, ...]:
    """Texts of the cells; a row may end early."""
    return (*map(cell, cells), *[""] * (count - len(cells)))


def cell(value: Any) -> str:
    """What stands in a cell, on one line: "" for what is not known, a time in UTC, "yes" or "no"."""
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(cell, value))
    return one_line(str(value))


def since(seconds: float | None) -> str:
    """A time span: "6 s", "12 min", "3.4 h", "5 days"; "" where it is not known."""
    if seconds is None:
        return ""
    for unit, length, least in (("days", 86400, 172800), ("h", 3600, 7200), ("min", 60, 120)):
        if abs(seconds) >= least:
            return f"{seconds / length:.{int(unit == 'h')}f} {unit}"
    return f"{seconds:.{0 if abs(seconds) >= 10 or seconds == int(seconds) else 1}f} s"


def spark(values: Sequence[float | None], unit: str, top: float = 0.0) -> str:
    """The samples of a window as bars, with the least and the most: "0-93 % ▁▂▇". `top`: what a full bar means; 0: the most."""
    found = [v for v in values if v is not None]
    if not found:
        return ""
    size = -(-len(found) // BARS_MOST)
    parts = [max(found[i : i + size]) for i in range(0, len(found), size)]
    full = max(top, *found, 0.0) or 1.0
    bars = "".join(BARS[min(len(BARS) - 1, int(max(v, 0.0) / full * len(BARS)))] for v in parts)
    low, high = f"{min(found):.0f}", f"{max(found):.0f}"
    return f"{low if low == high else f'{low}-{high}'} {unit} {bars}".replace("  ", " ")


def _verdict(one: EvidenceRow, causes: Sequence[Cause]) -> Cause | None:
    """The worst that the judgment says of it; None where it says nothing, or has ruled it out."""
    found = [c for c in causes if tier(c) < 3 and any(_names(c.subject, name) for name in one.about)]
    found = [c for c in found if not one.cites or any(one.cites in line for line in c.evidence)]
    return min(found, key=_rank, default=None)


def _names(subject: str, name: str) -> bool:
    """Whether the subject holds the name, and not as the beginning or the end of a longer one."""
    return name in subject and re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-]|\.\w)", subject) is not None


def _rank(cause: Cause | None) -> tuple[int, int]:
    """0 first: a credible fault, a possible one, what is benign, nothing."""
    return (tier(cause), list(Certainty).index(cause.certainty)) if cause else (3, 0)


def _words(cause: Cause | None, known: dict[str, CauseKnowledge]) -> str:
    if cause is None:
        return ""
    title = known[cause.slug].title if cause.slug in known else cause.slug
    return f"{'benign' if cause.benign else cause.certainty.value}: {title}"


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Of each column: what its longest cell needs, and of a row that is too wide the widest columns less."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = WIDEST - GAP * (len(widths) - 1)
    narrow = 0
    for number, width in enumerate(sorted(widths)):  # what the narrow ones leave is shared by the others
        share = (left - narrow) // (len(widths) - number)
        if width > share:
            return [min(w, max(share, 1)) for w in widths]
        narrow += width
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width - 1)].rstrip()}…"


def counted(names: Iterable[str], most: int = 4) -> str:
    """The first of these names, and how many more there are: "a, b and 7 more"."""
    found = list(dict.fromkeys(n for n in names if n))
    more = len(found) - most
    return f"{', '.join(found[:most])} and {more} more" if more > 0 else ", ".join(found)
