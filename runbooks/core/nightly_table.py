"""The nightly's short table for a terminal: one line a node."""

from runbooks.core.clean import one_line
from runbooks.core.nightly import NightlyReport, SystemCheck
from runbooks.core.node_basics import quarantine
from runbooks.core.unmark import columns

WIDEST = 90


def nightly_table(report: NightlyReport) -> str:
    """The rows in columns, each on one line."""
    return "\n".join(columns([(*row[:3], _short(row[3])) for row in nightly_rows(report)]))


def nightly_rows(report: NightlyReport) -> list[tuple[str, str, str, str]]:
    """Node, runbook, outcome, headline; worst first within a node; then systems at fault. The first row is the head."""
    rows = [("NODE", "RUNBOOK", "OUTCOME", "WHAT")]
    others = dict.fromkeys(r.node for r in report.results if r.node not in report.nodes)
    for node in (*report.nodes, *others):
        found = sorted((r for r in report.results if r.node == node), key=lambda r: r.outcome.rank)
        rows += [(node, r.runbook, r.outcome.value, r.headline) for r in found]
        rows += [(node, "-", "quarantined", quarantine(look)) for look in report.looks if look.node == node and look.quarantined]
        if not found:
            rows.append((node, "-", "-", "no runbook applies"))
    return rows + [(s.name, "-", "FAULT" if s.reachable else "no answer", _detail(s)) for s in report.systems if s.wrong]


def _detail(system: SystemCheck) -> str:
    return f"{system.detail}; fix: {system.fix}" if system.fix else system.detail


def _short(text: str) -> str:
    plain = one_line(text)
    return plain if len(plain) <= WIDEST else plain[: WIDEST - 1] + "…"
