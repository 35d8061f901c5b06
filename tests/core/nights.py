"""Nights made up for the tests of the nightly report."""

from datetime import datetime, timedelta
from typing import Any

from runbooks.core.nightly import Cost, NightlyReport, Result, SystemCheck, compare
from runbooks.core.node_basics import NodeBasics
from runbooks.core.outcome import Outcome
from runbooks.core.reading import Unknown, UnknownReason
from tests.core.samples import T0


def result(node: str, *causes: str, outcome: Outcome | None = None, **more: Any) -> Result:
    """One runbook on one node: sick with those causes, healthy without."""
    outcome = outcome or (Outcome.UNHEALTHY if causes else Outcome.HEALTHY)
    base: dict[str, Any] = {"headline": f"{causes[0]} on {node}" if causes else "nothing wrong", "causes": causes}
    return Result.model_validate({"node": node, "runbook": "zombie-gpu", "outcome": outcome} | base | more)


def night(n: int, *results: Result, previous: tuple[NightlyReport, ...] = (), **more: Any) -> NightlyReport:
    """The night `n` days after the first."""
    at: datetime = T0 + timedelta(days=n)
    base: dict[str, Any] = {
        "id": f"n-{n}",
        "fleet": "lab",
        "started_at": at,
        "ended_at": at + timedelta(seconds=95),
        "results": results,
        "nodes": tuple(dict.fromkeys(r.node for r in results)),
        "troubles": compare(previous, results, at),
        "cost": Cost(wall_s=95, cpu_s=3.2, nodes=len(results), readings=12),
    }
    return NightlyReport.model_validate(base | more)


BEFORE = (
    night(0, result("a", "stopped-process"), result("b", "orphan"), result("c"), result("d", "gpu-lost")),
    night(1, result("a", "stopped-process"), result("b"), result("c"), result("d", "gpu-lost")),
    night(2, result("a", "stopped-process"), result("b"), result("c"), result("d", "gpu-lost"), result("e", "orphan")),
)
MARK = '{"at": "2026-03-09T04:00:00+00:00", "by": "ana", "reason": "gpu-off-the-bus: GPU 3"}'
TONIGHT = night(
    3,
    result(
        "a", "stopped-process", headline="GPU 0 is held by pid 4242 (stopped)",
        do_now=("Ask who stopped pid 4242.",), report="reports/zombie-gpu/a/20260310T031205Z-r1.md",
    ),
    result("b", "orphan"),
    result("c", "latched-counter"),
    result("d", outcome=Outcome.CANNOT_TELL, headline="d could not be read", unknowns=("ssh: unreachable: no route",)),
    result("e"),
    previous=BEFORE,
    looks=(
        NodeBasics(node="a", python=(3, 11), uid=1000),
        NodeBasics(node="b", python=(3, 11), uid=1000, mark=MARK),
        NodeBasics(node="c"),
        NodeBasics(node="d", blind=Unknown(reason=UnknownReason.UNREACHABLE, detail="no route")),
        NodeBasics(node="e", python=(3, 12), off_s=397),
    ),
    not_read=("d: ssh: unreachable: no route",),
    systems=(
        SystemCheck(name="registry", url="https://registry.example/v2/", reachable=True, detail="HTTP 200", seconds=0.2),
        SystemCheck(name="database", url="tcp://10.0.0.9:5432", reachable=False, detail="connection refused"),
    ),
)  # fmt: skip
