"""The common-cause guard: looks at the fleet's other runs: many targets failing alike are one incident, and per-target fixing stops."""

from datetime import timedelta
from typing import TYPE_CHECKING

from flows import store
from flows.clock import server_now
from runbooks.core.alike import many_alike
from runbooks.core.verdict import Diagnosis

if TYPE_CHECKING:
    from flows.engine.run import Run


def check_common_cause(run: "Run", diagnosis: Diagnosis) -> str:
    """A sentence naming the common cause and the targets, or "" if there is none."""
    mine, now, limits = {c.slug for c in diagnosis.wrong}, server_now(), run.policy.storm
    seen = {cause: [(now, run.context.target)] for cause in mine}
    for other in store.find_runs([store.RUNBOOK_TAG], since=now - timedelta(seconds=limits.window_s)):
        if other.labels.get("fleet") != run.fleet.name or other.labels.get("runbook") != run.spec.slug:
            continue
        for cause in mine & set(str(other.labels.get("causes", "")).split(",")):
            seen[cause].append((other.expected_start_time or now, str(other.labels.get("target"))))
    for cause, failures in sorted(seen.items()):
        if targets := many_alike(failures, now, limits.window_s, limits.alike):
            return (
                f"{len(targets)} targets show {cause} within {limits.window_s:.0f} s ({', '.join(targets[:8])}): "
                "one incident with a common cause; fixing them one by one stops here"
            )
    return ""
