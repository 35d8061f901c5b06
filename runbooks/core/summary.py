"""What a report says first, for a terminal: the verdict, what it rests on, what must not be done, what to do now. Pure."""

from collections.abc import Iterable, Iterator

from runbooks.core.clean import first
from runbooks.core.grouped import CauseGroup, groups_of, how_many
from runbooks.core.knowledge import CauseKnowledge, Runbook
from runbooks.core.render import NOTHING, do_now, must_not
from runbooks.core.report import Report
from runbooks.core.show import Markdown, joined, markdown, md

CAUSES, PROOFS, MOST = 3, 3, 8  # kinds of cause, lines of evidence of each, lines of a list; the report has them all


def first_words(report: Report, knowledge: Runbook | None = None) -> Markdown:
    """The headline, then up to three short parts; a part without lines is left out."""
    known = knowledge.causes if knowledge else {}
    now = report.after or report.diagnosis
    parts = [
        md(f"{report.headline}{how_many(report, known)}") or markdown("(blank)"),
        *_part("Evidence", _evidence(tuple(groups_of(now.wrong)), now.symptom, known)),
        *_part("Do NOT", _items(first(must_not(report, known), MOST))),
        *_part("Do now", _items(() if do_now(report) == NOTHING else do_now(report))),
    ]
    return joined("\n\n", parts)


def _part(title: str, lines: Iterable[Markdown]) -> Iterator[Markdown]:
    shown = list(lines)
    if shown:
        yield joined("\n", [markdown("## {}\n", title), *shown])


def _items(lines: Iterable[str | Markdown]) -> Iterator[Markdown]:
    """What is Markdown already is a block of commands."""
    for line in lines:
        yield markdown("\n{}\n", line) if isinstance(line, Markdown) else markdown("- {}", line)


def _evidence(groups: tuple[CauseGroup, ...], symptom: str, known: dict[str, CauseKnowledge]) -> Iterator[Markdown]:
    """Of each kind of fault the first case; where there is none, what was seen."""
    if not groups and symptom:
        yield markdown("- {}", symptom)
    for group in groups[:CAUSES]:
        cause, title = group.causes[0], known[group.slug].title if group.slug in known else group.slug
        yield markdown("- {} ({}): {}", title, group.sure, cause.subject)
        yield from (markdown("  - {}", line) for line in first(cause.evidence, PROOFS))
    if len(groups) > CAUSES:
        yield markdown("- … and {} more kinds: see the report", len(groups) - CAUSES)
