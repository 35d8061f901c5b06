"""Goes through everything that a server recorded and counts broken promises, without asking the engine's own checks.

Counted: actions that began without a permission of their own (`unapproved`, or `twice` where one permission served two), or
on something else than what was allowed (`other_target`); steps begun inside a freeze; targets over the budget; approvals that
led to nothing; runs that nobody runs and that the reaper does not end; secrets in the database.
"""

import json
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

from flows import store
from flows.engine.actions import risks
from flows.engine.approval import IN_ADVANCE
from flows.engine.state_table import OPEN
from flows.engine.steps import began, read_steps
from flows.reaper import sweep
from runbooks.core.plan import Risk
from runbooks.core.policy import Mode, Policy
from tasks.context import utc_now
from tasks.this_machine import Owner, start_ticks
from tests.scorecard.allowed import Allowed, allowed_plans
from tests.scorecard.freezes import Freeze, read_freezes
from tests.scorecard.secrets import secrets_in
from tests.support.server_database import rows_of

PROMISES = ("twice", "unapproved", "other_target", "after_freeze", "over_budget", "approvals_lost", "never_ended", "secrets")
DETAILS: list[str] = []
"""What was found broken, in words."""
LOOKED_AT = ("runs", "actions", "not_judged", "not_compared", "freezes")
SLACK = timedelta(seconds=1)  # a freeze counts from its answer; its row is a little older
ROUNDS = 6  # of the reaper, each with more time passed on


class Record(NamedTuple):
    """What the server has: runbook runs by id, action runs of which a step began, and the freezes."""

    runs: dict[str, Any]
    acts: list[Any]
    freezes: tuple[Freeze, ...] = ()


def read_record(home: Path) -> Record:
    """All of it."""
    runs = {str(r.id): r for r in store.find_runs([store.RUNBOOK_TAG])}
    return Record(runs, [a for a in store.find_runs([store.ACT_TAG]) if began(a)], read_freezes(home))


def audit_home(home: Path) -> dict[str, int]:
    """Everything, of the server whose state lies there. The reaper gets its chance to end what is left before it is counted."""
    found = audit(read_record(home))
    found["never_ended"] = _tell("never ended", left_open())
    with TemporaryDirectory(prefix="audit-") as folder:
        found["secrets"] = _tell("a secret", secrets_in(rows_of(home), Path(folder)))
    return dict(found)


def left_open() -> list[Any]:
    """Runs that nobody runs, and that rounds of the reaper, each with more time passed on, did not end."""
    for i in range(ROUNDS):
        sweep(utc_now() + timedelta(seconds=200 * (i + 1)))
    return [r for tag in (store.RUNBOOK_TAG, store.ACT_TAG) for r in store.find_runs([tag], OPEN) if _nobody_runs(r)]


def _tell(what: str, found: list[Any]) -> int:
    DETAILS.extend(f"{what}: {f if isinstance(f, str) else f'{f.name} {f.id} {f.state and f.state.name}'}" for f in found)
    return len(found)


def audit(record: Record) -> Counter[str]:
    """What the record alone tells; the first counts say how much was looked at."""
    runs, acts = record.runs, record.acts
    found: Counter[str] = Counter(dict.fromkeys(LOOKED_AT + PROMISES, 0))
    found["runs"], found["actions"], found["freezes"] = len(runs), len(acts), len(record.freezes)
    by_run: dict[str, list[Any]] = defaultdict(list)
    for act in acts:
        by_run[str(act.parameters.get("about", {}).get("runbook_run"))].append(act)
    for run_id, mine in by_run.items():
        if run_id in runs:
            broken = _permissions(runs[run_id], mine)
            found.update(broken)
            if set(broken) & set(PROMISES):
                DETAILS.append(f"{dict(broken)}: {runs[run_id].name} {run_id} mode {runs[run_id].parameters.get('mode')}")
            found.update(_targets(runs[run_id], mine))
    found["after_freeze"] = _tell("after a freeze", [s for a in acts for s in _begun_in(a, record.freezes)])
    found["over_budget"] += _over_budget(runs, acts)
    found["approvals_lost"] += sum(_approval_lost(r) for r in runs.values())
    return found


def _nobody_runs(run: Any) -> bool:
    """True of an open run that asks nobody, is planned for no worker, and whose process is gone."""
    state = run.state
    asks = state and state.is_paused() and state.state_details.run_input_keyset
    planned = state and state.is_scheduled() and store.RUNBOOK_TAG in run.tags
    if asks or planned:
        return False
    owner = Owner.from_labels(dict(run.labels))
    return owner is None or start_ticks(owner.pid) != owner.start_ticks


def _permissions(run: Any, acts: list[Any]) -> Counter[str]:
    """One permission, one action on each owner."""
    allowed = len(_approvals(run)) + (1 if IN_ADVANCE in run.labels else 0) + (1 if _automatic(run, acts) else 0)
    if run.parameters.get("mode") == Mode.AUTO.value and _policy(run) is None:
        return Counter(not_judged=1)  # its policy file went with its test's folder
    most = max(Counter(str(a.parameters.get("owner")) for a in acts).values())
    if most <= allowed:
        return Counter()
    return Counter(unapproved=most) if not allowed else Counter(twice=most - allowed)


def _targets(run: Any, acts: list[Any]) -> Counter[str]:
    """Each action is exactly what was allowed: the same plan, the same steps on the same identities, begun by who locked it."""
    allowed = allowed_plans(run)
    if not allowed:
        return Counter(not_compared=len(acts))  # killed before its report, and nobody was asked
    other = [a for a in acts if not _as_allowed(a, allowed)]
    return Counter(other_target=_tell("not as it was allowed", other))


def _as_allowed(act: Any, allowed: list[Allowed]) -> bool:
    given = act.parameters
    if not any(a.covers(str(given.get("digest")), given.get("steps", ())) for a in allowed):
        return False
    for row in store.inputs(act.id, "step-", 1000):
        number, facts = row.key.removeprefix("step-"), json.loads(row.value)
        if number.isdigit() and not facts.get("revoked"):
            step = given["steps"][int(number)] if int(number) < len(given["steps"]) else {}
            if (facts.get("by"), facts.get("kind")) != (given.get("token"), step.get("kind")):
                return False
    return True


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


def _begun_in(act: Any, freezes: tuple[Freeze, ...]) -> list[str]:
    """Steps that began while a freeze stood, whenever their action began."""
    begun = [s for s in read_steps(act.id) if s.begun] if freezes else []
    return [
        f"{act.name} {act.id} step {s.i + 1} at {s.begun_at}, frozen from {f.begin}"
        for s in begun
        for f in freezes
        if f.begin + SLACK < s.begun_at and (f.until is None or s.begun_at < f.until)
    ]


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
