"""What was allowed, as it stands where the permission was given: the plan that a person was shown and chose, the plan that
the command named, or the one that the report says the policy allowed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows import store
from flows.engine.approval import IN_ADVANCE
from runbooks.core.plan import Plan


@dataclass(frozen=True)
class Allowed:
    """One plan that may be carried out."""

    digest: str
    steps: tuple[dict[str, Any], ...] | None = None  # None: only its digest is known

    def covers(self, digest: str, steps: Sequence[dict[str, Any]]) -> bool:
        """True if an action of that digest with these steps is this plan, or its part on one owner."""
        if self.digest != digest:
            return False
        return self.steps is None or all(any(_same(s, mine) for mine in self.steps) for s in steps)


def _same(recorded: dict[str, Any], allowed: dict[str, Any]) -> bool:
    """The same kind on the same owner and identities. Of long arguments the record leaves some out."""
    names = ("kind", "owner")
    if [recorded.get(n) for n in names] != [allowed.get(n) for n in names]:
        return False
    args = allowed.get("args", {})
    return bool(recorded.get("args") or not args) and all(args.get(k) == v for k, v in recorded.get("args", {}).items())


def allowed_plans(run: Any) -> list[Allowed]:
    """Everything that this run was allowed; none where nothing says it."""
    return [*_by_a_person(run), *_in_advance(run), *_by_policy(run)]


def _by_a_person(run: Any) -> list[Allowed]:
    found = []
    for row in store.inputs(run.id, "suspended-", 200):
        answer = json.loads(row.value) if row.key.endswith("-response") else {}
        if answer.get("decision") == "approve":
            key = row.key.removeprefix("suspended-").removesuffix("-response")
            shown = json.loads(store.read_input(run.id, f"plans-{key}") or "[]")
            choice = answer.get("choice") or next((p["name"] for p in shown), "")
            found += [Allowed(Plan.model_validate(p).digest, tuple(p["steps"])) for p in shown if p["name"] == choice]
    return found


def _in_advance(run: Any) -> list[Allowed]:
    digest = str(run.labels.get(IN_ADVANCE, "")).partition(" ")[0]
    return [Allowed(digest)] if digest else []


def _by_policy(run: Any) -> list[Allowed]:
    """From its report, whose name ends with the run's id."""
    found = []
    for path in Path(str(run.parameters.get("out") or "/nonexistent")).rglob(f"2*{run.id}*.json"):
        report = json.loads(path.read_text(encoding="utf-8"))
        permission, chosen = report.get("permission") or {}, report.get("chosen") or {}
        if permission.get("by") == "policy" and permission.get("allowed"):
            found.append(Allowed(str(permission["digest"]), tuple(chosen["steps"]) if chosen else None))
    return found
