"""The nightly's short table for a terminal: one line a node."""

from runbooks.core.clean import one_line
from runbooks.core.nightly import NightlyReport

WIDEST = 90


def nightly_table(report: NightlyReport) -> str:
    """Node, runbook, outcome, headline; worst first within a node. Control characters are taken out."""
    rows = [("NODE", "RUNBOOK", "OUTCOME", "WHAT")]
    others = dict.fromkeys(r.node for r in report.results if r.node not in report.nodes)
    for node in (*report.nodes, *others):
        found = sorted((r for r in report.results if r.node == node), key=lambda r: r.outcome.rank)
        rows += [(node, r.runbook, r.outcome.value, _short(r.headline)) for r in found]
        if not found:
            rows.append((node, "-", "-", "no runbook applies"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row[:3], widths, strict=True)) + "  " + row[3] for row in rows
    )


def _short(text: str) -> str:
    plain = one_line(text)
    return plain if len(plain) <= WIDEST else plain[: WIDEST - 1] + "…"
