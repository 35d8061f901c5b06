"""Why a sweep should not run now: another one is running, or its hour is long past. By reading Prefect's runs.

Not Prefect's own limit per deployment: its slots are leases in the server's memory by default, and one that a restart
leaks would switch the nightly off for good.
"""

from datetime import timedelta
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, StateType

from flows import store
from flows.clock import server_now
from runbooks.core.times import utc
from tasks.this_machine import Owner, is_gone

LATE = {"nightly": timedelta(hours=3), "sweep": timedelta(minutes=4)}


def why_skip(run_id: str, kind: str) -> str:
    """Why this sweep ends at once; "" if it goes on."""
    mine = store.read_run(run_id)
    due = mine.expected_start_time
    if mine.auto_scheduled and due is not None and server_now() - due > LATE[kind]:
        return f"due at {utc(due)}, but a worker took it only now; a missed {kind} is not repeated"
    running = store.find_runs([store.RUNBOOK_TAG, f"runbook:{kind}"], [StateType.RUNNING], limit=50)
    first = min((r for r in running if r.id == mine.id or (_same(r, mine) and not _dead(r))), key=_order, default=mine)
    if first.id == mine.id or _order(mine) < _order(first):
        return ""
    return f"run {first.name} ({first.id}) of the same fleet is still running: no overlap"


def _same(run: FlowRun, mine: FlowRun) -> bool:
    return run.parameters.get("fleet") == mine.parameters.get("fleet")


def _dead(run: FlowRun) -> bool:
    """Its process is proven gone, and only its record still says that it runs. False where that cannot be told from here."""
    owner = Owner.from_labels(dict(run.labels))
    return owner is not None and is_gone(owner) is True


def _order(run: FlowRun) -> tuple[float, UUID]:
    begun = run.start_time or run.expected_start_time
    return (begun.timestamp() if begun else 0.0, run.id)
