"""The common-cause guard: looks at the fleet's other runs: many targets failing alike are one incident, and per-target fixing stops."""

from datetime import timedelta
from typing import TYPE_CHECKING

from flows import store
from flows.clock import server_now
from runbooks.core.verdict import Diagnosis

if TYPE_CHECKING:
    from flows.engine.run import Run


def check_common_cause(run: "Run", diagnosis: Diagnosis) -> str:
    """A sentence naming the common cause and the targets, or "" if this is not a storm."""
    mine = {c.slug for c in diagnosis.wrong}
    since = server_now() - timedelta(seconds=run.policy.storm.window_s)
    alike: dict[str, set[str]] = {cause: {run.context.target} for cause in mine}
    for other in store.find_runs([store.RUNBOOK_TAG], since=since):
        if other.labels.get("fleet") != run.fleet.name or other.labels.get("runbook") != run.spec.slug:
            continue
        for cause in mine & set(str(other.labels.get("causes", "")).split(",")):
            alike[cause].add(str(other.labels.get("target")))
    for cause, targets in sorted(alike.items()):
        if len(targets) >= run.policy.storm.alike:
            return (
                f"{len(targets)} targets show {cause} within {run.policy.storm.window_s:.0f} s "
                f"({', '.join(sorted(targets)[:8])}): "
                "one incident with a common cause; fixing them one by one stops here"
            )
    return ""
