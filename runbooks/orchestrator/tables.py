"""What a person looks at of both sides: each pod of ours with its row, each row that lives, and the pods of others."""

from collections.abc import Iterator
from datetime import datetime

from runbooks.core.reading import value_or
from runbooks.core.table import EvidenceTable, row, since, table
from runbooks.orchestrator.evidence import Evidence
from runbooks.parsers.runpod import Pod


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """Pods first, for they cost."""
    rows, pods = value_or(e.rows_again, ()), value_or(e.pods_again, ())
    owner = {r.pod_id: r for r in rows if r.pod_id}
    named = {r.id: r for r in rows}
    ours = [p for p in pods if e.prefix and p.name.startswith(e.prefix)]
    mine = {p.id for p in ours}
    yield table("Pods of this orchestrator", "pod | name | state | row | row says | per hour | age | so far", (
        row(p.id, p.name, p.status or p.phase, r.id if r else "none", r.status if r else "", p.cost_per_hour, _ago(e, _born(p)),
            _sofar(e, p), about=f"pod {p.id}", worse=p.cost_per_hour or 0.0)
        for p in ours for r in [owner.get(p.id) or named.get(p.name)]
    ))  # fmt: skip
    there = {p.id for p in pods}
    yield table("Workers", "worker | row says | pod | in the list | created ago | heartbeat ago", (
        row(r.id, r.status, r.pod_id, r.pod_id in there, _ago(e, r.created), _ago(e, r.heartbeat), about=f"worker {r.id}",
            worse=float(bool(r.pod_id) and r.pod_id not in there))
        for r in rows
    ))  # fmt: skip
    others = (row(p.id, p.name, p.status or p.phase) for p in pods if p.id not in mine)
    yield table("Pods of others in the account", "pod | name | state", others)


def _born(p: Pod) -> datetime | None:
    return p.created_at or p.started_at


def _sofar(e: Evidence, p: Pod) -> str:
    born = _born(p)
    return f"{p.cost_per_hour * (e.taken_at - born).total_seconds() / 3600:.2f}" if born and p.cost_per_hour is not None else ""


def _ago(e: Evidence, at: datetime | None) -> str:
    return since(max(0.0, (e.taken_at - at).total_seconds())) if at else "not told"
