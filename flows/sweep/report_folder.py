"""The folder that a sweep writes its reports to, tried in the process that is going to write them."""

import logging
from pathlib import Path

from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet
from tasks.report_place import why_no_report
from tasks.report_store import reports_root

log = logging.getLogger("flows.report_folder")


def report_folder_of(fleet: Fleet, out: str | None) -> Path:
    """Where `out`, or else the fleet file, says. Raises ConfigError if no report can be kept there: then nothing is read."""
    folder = reports_root(out or fleet.reports.folder)
    if why := why_no_report(folder, fleet.reports, log.warning):
        raise ConfigError(why)
    return folder
