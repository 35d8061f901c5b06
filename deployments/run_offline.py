"""Reads, judges and reports without Prefect. Nothing here can change a target: no action is imported."""

import secrets
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from flows.spec import RunbookSpec, about_one
from runbooks.core.covers import with_unused
from runbooks.core.error_text import error_text
from runbooks.core.fleet import Fleet, UnknownNode
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import outcome_of
from runbooks.core.report import Event, Report
from runbooks.core.verdict import Diagnosis, State
from tasks.clean_log import clean_traceback
from tasks.context import Context, utc_now
from tasks.installation import installation_redactor
from tasks.report_store import earlier_evidence
from tasks.transport.base import TransportError
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
    limits = load_runbook(spec.slug).limit_values(fleet.limits.get(spec.slug))
    bridge = float(limits[spec.bridge]) if spec.bridge else 0.0
    pool = HostPool()
    context = Context(
        fleet=fleet,
        target=target,
        open_host=pool,
        limits=limits,
        options=options or {},
        earlier=earlier_evidence(folder, spec.slug, target, bridge, started),
    )
    try:
        context = about_one(spec, context)
        evidence, diagnosis = _look(spec, context)
        notes = tuple(pool.notes)
    finally:
        pool.close_all()
    return _report(spec, context, started, evidence, diagnosis, notes, trigger)


def _look(spec: RunbookSpec, context: Context) -> tuple[Any, Diagnosis]:
    """Evidence (None: nothing was read) and judgment."""
    limits = spec.limits.model_validate(context.limits)
    try:
        evidence = spec.gather(context)
        return evidence, with_unused(spec.diagnose(evidence, limits), context.not_used)
    except UnknownNode:
        raise
    except TransportError as e:
        unknown = f"{context.target}: {e}"
        return None, Diagnosis(
            state=State.CANNOT_TELL,
            headline=f"{context.target} could not be read: {e.reason}",
            unknowns=(unknown,),
            must_not=("Do not take this for healthy, or for a fault of its GPUs: nothing was read.",),
        )
    except Exception as e:
        print(clean_traceback(e), file=sys.stderr)
        why = installation_redactor().text(error_text(e))
        return None, Diagnosis(
            state=State.CANNOT_TELL,
            headline=f"the run itself failed: {why}",
            unknowns=("everything: the run failed before it could judge; this is a fault of gpu-runbooks",),
            must_not=("Do not take this for healthy: nothing was judged.",),
        )


def _report(
    spec: RunbookSpec,
    context: Context,
    started: datetime,
    evidence: Any,
    diagnosis: Diagnosis,
    notes: tuple[str, ...],
    trigger: str,
) -> Report:
    ended = utc_now()
    return Report(
        id=secrets.token_hex(4),
        runbook=spec.slug,
        title=load_runbook(spec.slug).title,
        target=context.target,
        fleet=context.fleet.name,
        mode="diagnose",
        trigger=trigger,
        outcome=outcome_of(diagnosis.state),
        headline=diagnosis.headline,
        started_at=started,
        ended_at=ended,
        diagnosis=diagnosis,
        evidence=evidence.model_dump(mode="json") if evidence is not None else {},
        limits=dict(context.limits),
        guards=("run without a server: nothing can be changed",) if diagnosis.plans else (),
        timeline=(Event(at=started, what=f"read {context.target}"), Event(at=ended, what=diagnosis.headline)),
        connection=notes,
    )
