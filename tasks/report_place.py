"""Tries the places of a run's report before anything is read: its folder, and the object store that it is copied to."""

from collections.abc import Callable
from pathlib import Path

from runbooks.core.fleet import Reports
from runbooks.core.nightly import CheckState
from tasks.report_store import why_unusable
from tasks.systems.s3 import try_reports
from tasks.systems.trying import begin_all

BOUND_S = 15.0  # a bucket that does not answer must not hold a run back for longer


def why_no_report(folder: Path, reports: Reports, warn: Callable[[str], None]) -> str:
    """Why a report could not be kept, and what to do; "" if it could.

    A store that does not answer is only told with `warn`: the report in the folder stays, and the outage may be what is looked for.
    """
    if why := why_unusable(folder):
        return f"no report can be written to {why}"
    for check in begin_all([try_reports(reports.s3)], BOUND_S)() if reports.s3 else ():
        if check.state is CheckState.FAULT and check.reachable:
            return f"no report can be copied to {reports.s3}: {check.detail}; {check.fix}"
        if check.state is CheckState.FAULT:
            warn(f"no report can be copied to {reports.s3}: {check.detail}; it stays in {folder}")
    return ""
