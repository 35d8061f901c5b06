"""A report to Markdown. Everything is escaped unless a helper of show.py made it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from runbooks.core.distinct import prohibitions
from runbooks.core.evidence_tables import FEW, tables_of
from runbooks.core.fixed import part_left
from runbooks.core.grouped import folded, groups_of, how_many
from runbooks.core.knowledge import CauseKnowledge, Runbook
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan
from runbooks.core.readings import in_numbers, readings
from runbooks.core.report import Event, Report
from runbooks.core.show import Markdown, block, commands_block, in_html, md, own_url
from runbooks.core.table import MOST, ShownTable, counted
from runbooks.core.unmark import by_fence
from runbooks.core.verdict import Cause, Certainty, Diagnosis

NOTHING = ("Nothing.",)  # what a person has to do where all is well


def render(report: Report, knowledge: Runbook | None = None) -> Markdown:
    """The report as Markdown, for the person who was paged. `knowledge` adds titles and explanations of causes."""
    known = knowledge.causes if knowledge else {}
    template = environment().get_template("report.md.j2")
    text = template.render(
        r=report,
        d=report.diagnosis,
        says=report.outcome.row.report,
        do_now=do_now(report),
        many=how_many(report, known),
        causes=[(group, known.get(group.slug)) for group in groups_of(_shown(report.diagnosis.causes))],
        titles={slug: cause.title for slug, cause in known.items()},
        open=not report.outcome.row.well,
        quiet=report.outcome.row.quiet,
        tables=_tables(report, knowledge),
        timeline=tuple(_timeline(report.timeline)),
        findings=tuple(folded(_now(report))),
        ruled_out=[(group, known.get(group.slug)) for group in groups_of(_ruled_out(report.diagnosis.causes))],
        must_not=_must_not(report, known),
        plans=_plans(report),
        raw_readings=(
            ("Raw readings", tuple(readings(report.evidence))),
            ("Raw readings after the action", tuple(readings(report.after_evidence or {}))),
        ),
        undone=_undone(report),
        by_hand=_by_hand(report),
        references=_references(report, knowledge),
    )
    return tidy(text)


def _tables(report: Report, knowledge: Runbook | None) -> tuple[ShownTable, ...]:
    """Of what the judgment that a person acts on rests on. Where nobody is needed the first one is short, and the others are folded."""
    now = _now(report)
    evidence = report.after_evidence if now is report.after else report.evidence
    return tables_of(report.runbook, evidence or {}, now, knowledge, FEW if report.outcome.row.quiet else MOST)


def _timeline(events: Sequence[Event]) -> Iterator[tuple[Event, float | None]]:
    """Each event, and how many seconds passed since the one before."""
    last = None
    for event in events:
        yield event, (event.at - last).total_seconds() if last else None
        last = event.at


def _now(report: Report) -> Diagnosis:
    """The judgment that a person acts on: after a fix that of the healed world."""
    return report.after if report.outcome is Outcome.FIXED and report.after else report.diagnosis


def _shown(causes: Sequence[Cause]) -> list[Cause]:
    return [c for c in causes if c.certainty is not Certainty.RULED_OUT]


def _ruled_out(causes: Sequence[Cause]) -> list[Cause]:
    return [c for c in causes if c.certainty is Certainty.RULED_OUT]


def do_now(report: Report) -> tuple[str | Markdown, ...]:
    """What the person must do; never empty, so that nobody has to guess."""
    said = (report.after or report.diagnosis).do_now
    if report.outcome is Outcome.WAITING and report.approve_command:
        return ("Read the plan below, then decide. To allow it:", block(report.approve_command, "sh"), *said)
    if report.outcome is Outcome.NOT_FIXED:
        return ("Escalate: the first change did not help, and nothing is retried automatically.", *said)
    if report.outcome is Outcome.PARTLY_FIXED:
        return ("Do the rest of the plan by hand, as shown below; nothing is retried automatically.", *said)
    if report.outcome is Outcome.UNFINISHED:
        return ("Check by hand how far it got (timeline and `what was done` below); nothing is repeated.", *said)
    if report.outcome is Outcome.REFUSED:
        held = tuple(f"Held back: {guard}" for guard in report.guards)
        return (*held, *said, "Remove what held it back, or do it by hand as shown below.")
    if report.outcome is Outcome.FIXED:
        return (report.after.do_now if report.after else ()) or NOTHING
    if said or report.outcome.exit_code == 0:
        return said or NOTHING
    if report.outcome is Outcome.CANNOT_TELL:
        return tuple(f"Find out: {u}" for u in report.diagnosis.unknowns) or ("Run it again.",)
    return ("Read the causes below and decide; nothing else happens automatically.",)


def _must_not(report: Report, known: dict[str, CauseKnowledge]) -> tuple[str, ...]:
    now = _now(report)
    own = now.must_not
    likely = [c for c in now.wrong if c.certainty is not Certainty.POSSIBLE]
    more = [line for c in likely if c.slug in known for line in known[c.slug].must_not]
    return prohibitions([*own, *more])


def _plans(report: Report) -> tuple[Plan, ...]:
    """The chosen plan alone once one was chosen, else every choice; while a person is asked, those that are withheld too."""
    asked = report.diagnosis.knowingly if report.outcome is Outcome.WAITING else ()
    return (report.chosen,) if report.chosen else (*report.diagnosis.plans, *asked)


def _by_hand(report: Report) -> tuple[str, ...]:
    """Commands for a person; after a fix those of the healed world: what ended a process then ends another one now."""
    return _now(report).by_hand if report.outcome is not Outcome.FIXED or report.after else ()


def _undone(report: Report) -> tuple[Plan, ...]:
    """Plans that were not carried out, to be done by hand."""
    if report.outcome is Outcome.PARTLY_FIXED and report.chosen:
        return (part_left(report.chosen, report.acts),)
    acted = any(act.outcome == "done" for act in report.acts)
    return () if acted or report.outcome.exit_code == 0 else _plans(report)


def _references(report: Report, knowledge: Runbook | None) -> tuple[str, ...]:
    if knowledge is None:
        return ()
    found = [
        ref for c in report.diagnosis.wrong if c.slug in knowledge.causes for ref in knowledge.causes[c.slug].references
    ]
    return tuple(dict.fromkeys(found))


def _links(urls: Sequence[str]) -> Markdown:
    """Addresses of runbook.yaml, written by us."""
    return Markdown(" · ".join(own_url(url) for url in urls))


def _time(at: datetime | str | None) -> str:
    try:
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError:
        return str(at)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else ""


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def count(number: int, noun: str) -> str:
    """`2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def tidy(text: str) -> Markdown:
    """At most one empty line in a row outside fenced blocks; one newline at the end."""
    out: list[str] = []
    for line, fenced in by_fence(text):
        if line.strip() or fenced or (out and out[-1].strip()):
            out.append(line if fenced else line.rstrip())
    return Markdown("\n".join(out).strip("\n") + "\n")


@cache
def environment() -> Environment:
    """Of the templates."""
    env = Environment(  # noqa: S701 - not HTML: `finalize` escapes every expression for Markdown
        loader=PackageLoader("runbooks.core"),
        finalize=md,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {"block": block, "html": in_html, "time": _time, "duration": _duration}
    env.filters.update(filters | {"count": count, "made_here": Markdown, "in_numbers": in_numbers, "counted": counted})
    env.filters.update({"commands": commands_block, "link": own_url, "links": _links})
    env.tests["made"] = lambda value: isinstance(value, Markdown)
    return env
