"""What the command line says of a run."""

import sys
from typing import Any

from deployments.errors import FAULT
from runbooks.core.outcome import Outcome


def facts_of(run_id: str) -> dict[str, Any]:
    """What the command line says of a run."""
    from flows import store
    from flows.ui_pages import UiPage, ui_url
    from tasks.fault_file import FAULT_LABEL

    run = store.read_run(run_id)
    state, outcome = run.state, outcome_named(run.labels.get("outcome"))
    return {
        "run": run_id,
        "name": run.name,
        "state": state.name if state else None,
        "message": (state.message or "") if state else "",
        "outcome": outcome.value if outcome else None,
        "headline": str(run.labels.get("headline", "")),
        "report": str(run.labels.get("report", "")),
        "fault": str(run.labels.get(FAULT_LABEL, "")),
        "ui": ui_url(UiPage.RUN, run_id),
    }


def outcome_named(text: object) -> Outcome | None:
    """The outcome that a run's label names; None for none."""
    try:
        return Outcome(str(text))
    except ValueError:
        return None


def report_fault(fault: str) -> int:
    """Names the file of a fault of ours, after all else that the run has to say. Returns the exit code."""
    print(f"gpu-runbooks: {fault}", file=sys.stderr, flush=True)
    return FAULT
