"""The one message of a nightly sweep: who needs somebody, and what is new. A quiet night is one line for the digest."""

import hashlib
from collections.abc import Iterable

from runbooks.core.clean import one_line
from runbooks.core.nightly import Change, NightlyReport, Result, Trouble
from runbooks.core.outcome import Outcome
from runbooks.notify.message import LINE, Message, incident_of

MOST = 12  # lines; the report has all
FIRST = (Change.NEW, Change.FLAPPING, Change.FIRST, Change.PERSISTING)


def message_of_nightly(report: NightlyReport, headline: str, path: str = "", artifact: str = "") -> Message:
    """The message. A sweep that finds what the last one found is the same news; each night is told."""
    there = [t for t in report.troubles if t.change in FIRST]
    facts = sorted(f"{t.node}/{t.runbook}/{t.cause}" for t in there) + sorted(report.not_read)
    return Message(
        run=report.flow_run or report.id,
        incident=incident_of(report.fleet, report.kind, report.fleet),
        severity=report.outcome.row.severity,
        outcome=report.outcome,
        fleet=one_line(report.fleet, LINE),
        runbook=report.kind,
        target=one_line(report.fleet, LINE),
        title="Nightly" if report.kind == "nightly" else report.kind.capitalize(),
        headline=one_line(headline, LINE),
        at=report.ended_at,
        mode="diagnose",
        trigger=one_line(report.trigger, LINE),
        causes=tuple(dict.fromkeys(t.cause for t in there))[:MOST],
        do_now=_cut([*_troubles(there), *_unread(report)]),
        report=path,
        artifact=artifact,
        news=hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16],
        always=report.kind == "nightly",
    )


def _troubles(there: Iterable[Trouble]) -> list[str]:
    """What is new before what goes on."""
    order = {change: i for i, change in enumerate(FIRST)}
    return [f"{t.node}: {t.headline} ({t.change}, {t.runbook})" for t in sorted(there, key=lambda t: order[t.change])]


def _unread(report: NightlyReport) -> list[str]:
    blind: list[Result] = [r for r in report.results if r.outcome is Outcome.CANNOT_TELL]
    down = [f"{s.name}: {s.detail if s.reachable else 'no answer'}" for s in report.systems if s.wrong]
    return down + [f"{r.node}: {r.headline} (cannot tell, {r.runbook})" for r in blind]


def _cut(lines: list[str]) -> tuple[str, ...]:
    short = [one_line(line, LINE) for line in lines[:MOST]]
    return (*short, f"… and {len(lines) - MOST} more: see the report") if len(lines) > MOST else tuple(short)
