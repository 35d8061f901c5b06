"""A report to Markdown. Everything is escaped unless a helper of show.py made it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from runbooks.core.distinct import prohibitions
from runbooks.core.evidence_tables import FEW, tables_of
from runbooks.core.fixed import part_left
from runbooks.core.grouped import grouped_findings, groups_of, how_many
from runbooks.core.knowledge import CauseKnowledge, Runbook
from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan
from runbooks.core.readings import in_numbers, readings
from runbooks.core.report import Event, Report
from runbooks.core.show import Markdown, block, commands_block, in_html, md, own_url
from runbooks.core.table import MOST, ShownTable, counted
from runbooks.core.times import utc, utc_of
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
        open=not report.outcome.row.well and judged_last(report) is report.diagnosis,
        remedies={slug: cause.remedy for slug, cause in known.items()},
        quiet=report.outcome.row.quiet,
        tables=_tables(report, knowledge),
        timeline=tuple(_timeline(report.timeline)),
        findings=tuple(grouped_findings(judged_last(report))),
        ruled_out=[(group, known.get(group.slug)) for group in groups_of(_ruled_out(report.diagnosis.causes))],
        must_not=must_not(report, known),
        plans=_plans(report),
        raw_readings=(
            ("Raw readings", tuple(readings(report.evidence))),
            ("Raw readings after the action", tuple(readings(report.after_evidence or {}))),
        ),
        undo=[(act, way) for act in reversed(report.acts) for way in act.undo],
        undone=_undone(report),
        by_hand=_by_hand(report),
        references=_references(report, knowledge),
    )
    return tidy(text)


def _tables(report: Report, knowledge: Runbook | None) -> tuple[ShownTable, ...]:
    """Of what the judgment that a person acts on rests on. Where nobody is needed the first one is short, and the others are folded."""
    now = judged_last(report)
    evidence = report.after_evidence if now is report.after else report.evidence
    return tables_of(report.runbook, evidence or {}, now, knowledge, FEW if report.outcome.row.quiet else MOST)


def _timeline(events: Sequence[Event]) -> Iterator[tuple[Event, float | None]]:
    """Each event, and how many seconds passed since the one before."""
    last = None
    for event in events:
        yield event, (event.at - last).total_seconds() if last else None
        last = event.at


def judged_last(report: Report) -> Diagnosis:
    """The judgment that a person acts on: after a fix that of the healed world."""
    return report.after if report.outcome.row.gone and report.after else report.diagnosis


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
    if report.outcome is Outcome.PARTLY_FIXED and not _undone(report):
        return ("What the plan was for is gone. Deal with what is still wrong: “Before and after” lists it.", *said)
    if report.outcome is Outcome.PARTLY_FIXED:
        return ("Do the rest of the plan by hand, as shown under “By hand”; nothing is retried automatically.", *said)
    if report.outcome is Outcome.UNFINISHED:
        return ("Check by hand how far it got (“What was done” and “Timeline”); nothing is repeated.", *said)
    if report.outcome is Outcome.REFUSED:
        codes = {r.why: f" ({r.code.value})" for r in report.refusals}
        held = tuple(f"Held back{codes.get(guard, '')}: {guard}" for guard in report.guards)
        return (*held, *said, "Remove what held it back, or do it by hand as shown under “By hand”.")
    if report.outcome is Outcome.FIXED:
        return (report.after.do_now if report.after else ()) or NOTHING
    if said or report.outcome.exit_code == 0:
        return said or NOTHING
    if report.outcome is Outcome.CANNOT_TELL:
        return tuple(f"Find out: {u}" for u in report.diagnosis.unknowns) or ("Run it again.",)
    return ("Read the causes and decide; nothing else happens automatically.",)


def must_not(report: Report, known: dict[str, CauseKnowledge]) -> tuple[str, ...]:
    """What the report forbids, each once: what its judgment says, and what its likely causes forbid."""
    now = judged_last(report)
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
    return judged_last(report).by_hand if report.after or not report.outcome.row.gone else ()


def _undone(report: Report) -> tuple[Plan, ...]:
    """Plans that were not carried out, to be done by hand."""
    if report.outcome is Outcome.PARTLY_FIXED and report.chosen:
        left = part_left(report.chosen, report.acts)
        return (left,) if left.steps else ()
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
    return utc(at) if isinstance(at, datetime) else utc_of(at or "")


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
