"""The places for reports, tried before anything is read: a report that cannot be kept is not worth a run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deployments.errors import CommandError
from deployments.paths import absolute
from deployments.state import state_dir
from tasks.report_store import reports_root

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet


def check_reports(out: str | None, fleet: "Fleet") -> None:
    """Raises CommandError if no report can be kept where `--out`, or else the fleet file, says."""
    state_dir()  # a relative folder lies in it
    check_place(reports_root(absolute(out) or fleet.reports.folder), fleet)


def check_place(folder: Path, fleet: "Fleet") -> None:
    """The same for a folder that is known."""
    from tasks.report_place import why_no_report

    if why := why_no_report(folder, fleet.reports, lambda said: print(f"warning: {said}", file=sys.stderr, flush=True)):
        raise CommandError(why)
