"""Goes through everything that a server recorded and counts broken promises, without asking the engine's own checks.

Counted: actions that began without a permission of their own (`unapproved`, or `twice` where one permission served two),
inside a freeze, over the budget; approvals that led to nothing; runs that lost their process and never ended.
"""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from flows import store
from flows.engine.actions import risks
from flows.engine.approval import IN_ADVANCE
from flows.engine.steps import began
from runbooks.core.plan import Risk
from runbooks.core.policy import Mode, Policy
from tests.scorecard.notes import FROZEN

PROMISES = ("twice", "unapproved", "after_freeze", "over_budget", "approvals_lost")
DETAILS: list[str] = []
"""What was found broken, in words."""
LOOKED_AT = ("runs", "actions", "not_judged")
SLACK = timedelta(seconds=1)  # between the switch's answer and its note


def audit() -> dict[str, int]:
    """Counts over the whole server; the first two say how much was looked at."""
    runs = {str(r.id): r for r in store.find_runs([store.RUNBOOK_TAG])}
    acts = [a for a in store.find_runs([store.ACT_TAG]) if began(a)]
    found: Counter[str] = Counter(dict.fromkeys(LOOKED_AT + PROMISES, 0))
    found["runs"], found["actions"] = len(runs), len(acts)
    by_run: dict[str, list[Any]] = defaultdict(list)
    for act in acts:
        by_run[str(act.parameters.get("about", {}).get("runbook_run"))].append(act)
    for run_id, mine in by_run.items():
        if run_id in runs:
            broken = _permissions(runs[run_id], mine)
            found.update(broken)
            if set(broken) & set(PROMISES):
                DETAILS.append(f"{dict(broken)}: {runs[run_id].name} {run_id} mode {runs[run_id].parameters.get('mode')}")
    for act in filter(_frozen, acts):
        found["after_freeze"] += 1
        DETAILS.append(f"after a freeze: {act.name} {act.id} at {act.start_time}; frozen {FROZEN}")
    found["over_budget"] += _over_budget(runs, acts)
    found["approvals_lost"] += sum(_approval_lost(r) for r in runs.values())
    return dict(found)


def _permissions(run: Any, acts: list[Any]) -> Counter[str]:
    """One permission, one action on each owner."""
    allowed = len(_approvals(run)) + (1 if IN_ADVANCE in run.labels else 0) + (1 if _automatic(run, acts) else 0)
    if run.parameters.get("mode") == Mode.AUTO.value and _policy(run) is None:
        return Counter(not_judged=1)  # its policy file went with its test's folder
    most = max(Counter(str(a.parameters.get("owner")) for a in acts).values())
    if most <= allowed:
        return Counter()
    return Counter(unapproved=most) if not allowed else Counter(twice=most - allowed)


def _approvals(run: Any) -> list[str]:
    stored = store.inputs(run.id, "suspended-", 200)
    return [i.key for i in stored if i.key.endswith("-response") and '"approve"' in str(i.value)]


def _automatic(run: Any, acts: list[Any]) -> bool:
    """True if mode and policy file let every kind go by itself."""
    policy = _policy(run)
    kinds = {str(k) for a in acts for k in a.parameters.get("kinds", ())}
    return (
        run.parameters.get("mode") == Mode.AUTO.value
        and policy is not None
        and policy.mode is Mode.AUTO
        and all(policy.kind(k).mode is Mode.AUTO and risks().get(k) is not Risk.DESTRUCTIVE for k in kinds)
    )


def _policy(run: Any) -> Policy | None:
    path = Path(str(run.parameters.get("policy") or "/nonexistent"))
    return Policy.model_validate(yaml.safe_load(path.read_text()) or {}) if path.is_file() else None


def _frozen(act: Any) -> bool:
    at = act.start_time
    if at is None:
        return False
    inside = [
        f
        for f in FROZEN
        if datetime.fromisoformat(f["from"]) + SLACK < at and at < datetime.fromisoformat(f.get("to", "9999-01-01T00:00:00+00:00"))
    ]
    return bool(inside)


def _over_budget(runs: dict[str, Any], acts: list[Any]) -> int:
    """Targets changed beyond the fleet's budget in any window that begins with an action."""
    over, fleets = 0, defaultdict(list)
    for act in sorted(acts, key=lambda a: a.start_time or a.created):
        run = runs.get(str(act.parameters.get("about", {}).get("runbook_run")))
        if run is not None and _policy(run) is not None:
            fleets[str(run.parameters.get("fleet"))].append((act.start_time or act.created, run))
    for path, changed in fleets.items():
        policy = _policy(changed[-1][1])
        if policy is None or not Path(path).is_file():
            continue
        nodes = len((yaml.safe_load(Path(path).read_text()) or {}).get("nodes", ()))
        for begin, _ in changed:
            end = begin + timedelta(seconds=policy.budget.window_s)
            targets = {str(r.parameters.get("target")) for at, r in changed if begin <= at < end}
            over = max(over, len(targets) - policy.budget.allowed(nodes))
    return max(over, 0)


def _approval_lost(run: Any) -> bool:
    """An approval was stored, the run has ended, and nothing says what became of it: no outcome, and no second look."""
    told = str(run.labels.get("outcome", "waiting")) != "waiting" or "looked.again" in run.labels
    return bool(run.state and run.state.is_final() and not told and _approvals(run))
