"""What the command line says of a nightly: at a terminal the whole table, worst first, made from the report itself."""

from pathlib import Path

from pydantic import ValidationError

from deployments.cli.display import is_rendered, show_outcome, show_table
from runbooks.core.nightly import NightlyReport
from runbooks.core.nightly_table import nightly_rows
from runbooks.core.render_nightly import nightly_headline


def show_nightly(record: str, table: str) -> None:
    """`record`: path of the report as JSON. `table`: what the run itself left, for a pipe and where the file is elsewhere."""
    report = _report(record) if is_rendered() else None
    if report is None:
        print(table)
        return
    worst = min((r.outcome for r in report.results), key=lambda o: o.rank, default=None)
    show_outcome(worst, report.fleet, nightly_headline(report))
    print()
    show_table(nightly_rows(report), coloured=2)
    print()


def _report(record: str) -> NightlyReport | None:
    try:
        return NightlyReport.model_validate_json(Path(record).read_bytes()) if record else None
    except (OSError, ValidationError):
        return None
