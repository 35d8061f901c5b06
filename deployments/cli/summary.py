"""The first lines of a report on the terminal, the same with and without a server."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runbooks.core.report import Report


def report_at(path: str) -> "Report | None":
    """The report whose page lies at `path`, if it is on this machine and can be read."""
    from pydantic import ValidationError

    from runbooks.core.report import Report

    try:
        return Report.model_validate_json(Path(path).with_suffix(".json").read_bytes()) if path else None
    except (OSError, ValidationError):
        return None


def show_summary(report: "Report") -> None:
    """Verdict, evidence, what must not be done, and what to do now."""
    from deployments.cli.display import show_outcome, show_page
    from runbooks.core.knowledge import load_runbook
    from runbooks.core.summary import first_words

    show_outcome(report.outcome, f"{report.title or report.runbook} on {report.target}", f"{report.outcome.row.report}.")
    show_page(first_words(report, load_runbook(report.runbook)))
