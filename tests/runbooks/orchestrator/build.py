"""A world of rows and pods from what a situation says of it: two looks alike, unless it says more."""

from datetime import UTC, datetime, timedelta
from typing import Any

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.orchestrator.diagnose import diagnose
from runbooks.orchestrator.evidence import Evidence
from runbooks.orchestrator.sides import Limits

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
TIMES = ("created", "heartbeat", "changed", "created_at", "started_at", "claimed")
ROW = {"status": "active", "created": 7200, "heartbeat": 10, "changed": 7000}
POD = {
    "phase": "running", "status": "RUNNING", "runtime": "there", "gpus": 1, "machine_id": "m1", "created_at": 7200, "cost_per_hour": 0.6,
    "disk_gb": 50,
}  # fmt: skip
WELL = {"id": "gpu-w0", "pod_id": "p0"}, {"id": "p0", "name": "gpu-w0"}
"""A worker that stands beside all others: lists are never empty, and most of them fit."""


def ago(data: dict[str, Any]) -> dict[str, Any]:
    """Seconds before now become times."""
    return {k: (NOW - timedelta(seconds=v)).isoformat() if k in TIMES and isinstance(v, int | float) else v for k, v in data.items()}


def known(value: Any) -> dict[str, Any]:
    """A reading that holds it; {kind: …} is one already."""
    return value if isinstance(value, dict) and "kind" in value else {"kind": "known", "value": value}


def _listed(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """What stands beside the one that is well; a reading as a whole stands alone."""
    told = given.get(name, [])
    return told if isinstance(told, list) else []


def evidence(given: dict[str, Any]) -> Evidence:
    """`rows` and `pods` beside the one that is well; any other key is the reading of that name itself."""
    rows = [ago(ROW | r) for r in (WELL[0], *_listed(given, "rows"))]
    pods = [ago(POD | p) for p in (WELL[1], *_listed(given, "pods"))]
    here, named = {p["id"] for p in pods}, {r["id"] for r in rows}
    read: dict[str, Any] = {
        "pods": pods, "pods_again": pods, "rows": rows, "rows_again": rows, "tasks": [ago(t) for t in _listed(given, "tasks")],
        "pods_by_id": {r["pod_id"]: "" for r in rows if r.get("pod_id") and r["pod_id"] not in here},
        "rows_by_id": {p["name"]: "" for p in pods if p["name"] not in named},
    }  # fmt: skip
    read |= {k: v for k, v in given.items() if k not in ("rows", "pods", "tasks") or isinstance(v, dict)}
    plain = {"taken_at": NOW.isoformat(), "prefix": "gpu-"} | {k: read.pop(k) for k in ("live", "ended", "marked") if k in read}
    return Evidence.model_validate(plain | {k: known(v) for k, v in read.items()})


def judge(given: dict[str, Any]) -> Diagnosis:
    """The diagnosis of one situation."""
    return diagnose(evidence(given), Limits.model_validate(load_runbook("fleet-sync").limit_values()))
