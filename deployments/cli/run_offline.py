"""Reads, judges and reports without Prefect. Nothing here can change a target: no action is called."""

import secrets
from pathlib import Path
from typing import Any

from flows.engine.observe import context_of, failed_observation, observe, report_of
from flows.spec import RunbookSpec, about_one
from runbooks.core.error_text import error_text
from runbooks.core.fleet import Fleet, UnknownNode
from runbooks.core.report import Event, Report
from runbooks.core.verdict import Diagnosis
from tasks.context import Context, utc_now
from tasks.fault_file import fault_of
from tasks.installation import installation_redactor
from tasks.transport.open import HostPool


def run_offline(
    spec: RunbookSpec,
    fleet: Fleet,
    target: str,
    folder: Path,
    trigger: str = "by hand",
    options: dict[str, Any] | None = None,
) -> tuple[Report, str]:
    """One diagnosis of `target` as a report (not yet saved), and what is said of a fault of ours, "" for none.

    Raises UnknownNode; all else is reported.
    """
    started = utc_now()
    with HostPool() as pool:
        context = about_one(spec, context_of(spec, fleet, target, folder, pool, options))
        evidence, diagnosis, fault = _observe(spec, context)
        notes = tuple(pool.notes)
    said = (Event(at=started, what=f"read {target}"), Event(at=utc_now(), what=diagnosis.headline))
    report = report_of(
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
    return report, fault


def _observe(spec: RunbookSpec, context: Context) -> tuple[Any, Diagnosis, str]:
    """Evidence (None: nothing was read), judgment, and what is said of a fault of ours."""
    try:
        return *observe(spec, context), ""
    except UnknownNode:
        raise
    except Exception as e:
        fault = fault_of(e)
        return None, failed_observation(installation_redactor().text(error_text(e)), fault), fault
