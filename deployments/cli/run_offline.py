"""Reads, judges and reports without Prefect. Nothing here can change a target: no action is called."""

import secrets
import sys
from pathlib import Path
from typing import Any

from flows.engine.observe import context_of, failed_observation, observe, report_of
from flows.spec import RunbookSpec, about_one
from runbooks.core.error_text import error_text
from runbooks.core.fleet import Fleet, UnknownNode
from runbooks.core.report import Event, Report
from runbooks.core.verdict import Diagnosis
from tasks.clean_log import clean_traceback
from tasks.context import Context, utc_now
from tasks.installation import installation_redactor
from tasks.transport.open import HostPool


def run_offline(
    spec: RunbookSpec,
    fleet: Fleet,
    target: str,
    folder: Path,
    trigger: str = "by hand",
    options: dict[str, Any] | None = None,
) -> Report:
    """One diagnosis of `target` as a report (not yet saved). Raises UnknownNode; all else is reported."""
    started = utc_now()
    with HostPool() as pool:
        context = about_one(spec, context_of(spec, fleet, target, folder, pool, options))
        evidence, diagnosis = _look(spec, context)
        notes = tuple(pool.notes)
    said = (Event(at=started, what=f"read {target}"), Event(at=utc_now(), what=diagnosis.headline))
    return report_of(
        spec,
        context,
        diagnosis,
        evidence,
        started,
        id=secrets.token_hex(4),
        trigger=trigger,
        guards=("run without a server: nothing can be changed",) if diagnosis.plans else (),
        timeline=said,
        connection=notes,
    )


def _look(spec: RunbookSpec, context: Context) -> tuple[Any, Diagnosis]:
    """Evidence (None: nothing was read) and judgment; the traceback of a failure goes to the terminal."""
    try:
        return observe(spec, context)
    except UnknownNode:
        raise
    except Exception as e:
        print(clean_traceback(e), file=sys.stderr)
        return None, failed_observation(installation_redactor().text(error_text(e)))
