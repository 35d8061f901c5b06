"""What the lines come to, as `logs` shows it: counters of each cycle, phases, errors by kind, and what one cycle decided."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from deployments.cli.logs_shown import LONGEST, Redact, event_data, event_lines, iso
from runbooks.core.clean import one_line
from runbooks.core.times import utc
from runbooks.parsers.logs.summary import MOST_KINDS, CycleTally, LogSummary, error_counts

NEWEST, KINDS = 10, 20  # cycles of each source, and kinds of errors, that are shown
NOT_SUMMED = "; no summary line: it did not end, or its end is cut"


def summary_lines(summary: LogSummary, redact: Redact) -> Iterator[str]:
    """The whole of it."""
    totals = summary.totals()
    for source in dict.fromkeys(c.source for c in summary.cycles):
        cycles = [c for c in summary.cycles if c.source == source]
        summed = sum(c.summed for c in cycles)
        yield f"cycles in {one_line(source, 60)}: {len(cycles):,}, {summed:,} of them with their summary line{_of(totals.get(source, {}))}"
        if len(cycles) > NEWEST:
            yield f"  … {len(cycles) - NEWEST:,} earlier ones"
        for cycle in cycles[-NEWEST:]:
            yield f"  {_cycle(cycle)}{_of(cycle.numbers)}{'' if cycle.summed else NOT_SUMMED}"
    phases: dict[str, int] = {}
    for cycle in summary.cycles:
        for phase, lines in cycle.phases.items():
            phases[phase] = phases.get(phase, 0) + lines
    if phases:
        yield "lines by phase: " + ", ".join(f"{one_line(p, 30)} {n:,}" for p, n in phases.items())
    if summary.severities:
        yield "lines by severity: " + ", ".join(f"{one_line(s, 20)} {n:,}" for s, n in sorted(summary.severities.items()))
    shown, left = error_counts(summary.errors, KINDS)
    if shown:
        yield f"errors, by kind ({len(summary.errors):,}), the most frequent first"
    for kind in shown:
        span = f"{utc(kind.first)} to {utc(kind.last)}" if kind.first and kind.last else "no time"
        said = one_line(redact(kind.example.text).partition("\n")[0], 300)
        yield f"  {kind.count:>6,}×  {span}  {one_line(', '.join(sorted(kind.sources)), 80)}: {said}"
    if left:
        yield f"  … {left:,} more kinds (--json has all)"


def _cycle(cycle: CycleTally) -> str:
    number = f"#{cycle.number}" if cycle.number is not None else "(no number)"
    span = f"{utc(cycle.began)} to {utc(cycle.ended)}" if cycle.began and cycle.ended else "no time"
    return f"{number:<8} {span}"


def _of(numbers: dict[str, float]) -> str:
    return ": " + ", ".join(f"{one_line(n, 60)} {v:g}" for n, v in numbers.items()) if numbers else ""


def decision_lines(cycles: list[CycleTally], at: datetime, redact: Redact) -> Iterator[str]:
    """What was decided at that time, and by which lines."""
    for cycle in cycles:
        yield f"at {utc(at)} {one_line(cycle.source, 60)} was in cycle {_cycle(cycle)}{_of(cycle.numbers)}"
        if cycle.errors:
            yield f"  it logged {cycle.errors:,} errors: a decision on readings that failed is none"
        if not cycle.decisions:
            yield "  no line of it says what was decided"
        for event in cycle.decisions:
            yield from (f"  {line[:LONGEST]}" for line in event_lines(event, redact))
    if not cycles:
        yield f"no cycle of {utc(at)} was read: the lines above begin later, end before, or hold no cycle"


def summary_data(summary: LogSummary, redact: Redact) -> dict[str, Any]:
    """As JSON holds it."""
    return {
        "cycles": [cycle_data(c, redact) for c in summary.cycles],
        "totals": summary.totals(),
        "severities": summary.severities,
        "errors": [
            {
                "count": k.count, "first": iso(k.first), "last": iso(k.last), "sources": sorted(k.sources),
                "example": event_data(k.example, redact),
            }
            for k in summary.errors[:MOST_KINDS]
        ],
    }  # fmt: skip


def cycle_data(cycle: CycleTally, redact: Redact) -> dict[str, Any]:
    """As JSON holds it."""
    return {
        "source": cycle.source, "number": cycle.number, "began": iso(cycle.began), "ended": iso(cycle.ended), "has_summary": cycle.summed,
        "numbers": cycle.numbers, "phases": cycle.phases, "errors": cycle.errors,
        "decisions": [event_data(e, redact) for e in cycle.decisions],
    }  # fmt: skip
