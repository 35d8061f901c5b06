"""The folder for reports, tried before anything is read: a report that cannot be kept is not worth a run."""

from typing import TYPE_CHECKING

from deployments.errors import CommandError
from deployments.paths import absolute
from deployments.state import state_dir
from tasks.report_store import reports_root, why_unusable

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet


def check_reports(out: str | None, fleet: "Fleet") -> None:
    """Raises CommandError if no report can be written where `--out`, or else the fleet file, says."""
    state_dir()  # a relative folder lies in it
    if why := why_unusable(reports_root(absolute(out) or fleet.reports.folder)):
        raise CommandError(f"no report can be written to {why}")
