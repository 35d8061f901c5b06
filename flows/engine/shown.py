"""What the engine decides and does, as task runs of its flow: the graph in Prefect reads like the timeline of the report."""

from collections.abc import Callable

from flows.engine.approval import ApprovalLookup
from flows.engine.gate import Decision, Gate
from flows.engine.lock import Lock
from runbooks.core.plan import Plan, Step
from runbooks.core.report import ActionRecord, Permission
from tasks.diagnostic import shown
from tasks.task_run import End

DECISION, REMEDIATION = "decision", "remediation"  # tags
DECIDED = {
    Decision.NOTHING: ("COMPLETED", "Nothing to do"),
    Decision.ASK: ("COMPLETED", "Ask a person"),
    Decision.ACT: ("COMPLETED", "Act"),
    Decision.REFUSE: ("FAILED", "Refused"),
    Decision.AGAIN: ("COMPLETED", "Read again"),
}
"""Type and name of the state of a decision."""


def decided(fn: Callable[[], Gate]) -> Gate:
    """The gate's answer, with the code of each guard that limits it."""
    return shown("decision", DECISION, fn, _of_gate)


def _of_gate(gate: Gate) -> End:
    kind, name = DECIDED[gate.decision]
    codes = ", ".join(dict.fromkeys(r.code.value for r in gate.why))
    plans = ", ".join(f"“{p.name}”" for p in gate.plans)
    said = "; ".join(x for x in (plans, *(f"{r.code}: {r.why}" for r in gate.why)) if x)
    return End(kind, f"{name}: {codes}" if codes and gate.decision is Decision.REFUSE else name, said)


def answered(fn: Callable[[], ApprovalLookup]) -> ApprovalLookup:
    """What a person has decided, if anybody has."""
    return shown("approval", DECISION, fn, lambda a: _of_permission(a.permission))


def _of_permission(permission: Permission | None) -> End:
    if permission is None:
        return End("COMPLETED", "Asking", "nobody has answered yet")
    if permission.allowed:
        return End("COMPLETED", "Approved", f"{permission.who}: “{permission.choice}”")
    return End("FAILED", "Not decided" if permission.by == "nobody" else "Rejected", permission.said or permission.who)


def locked(plan: Plan, fn: Callable[[], tuple[Lock, ...]]) -> tuple[Lock, ...]:
    """The locks of a plan's owners."""
    return shown(f"lock {', '.join(plan.owners)}", DECISION, fn, _of_locks)


def _of_locks(locks: tuple[Lock, ...]) -> End:
    return End("COMPLETED", "Locked", ", ".join(x.act_run for x in locks))


def acted(owner: str, fn: Callable[[], ActionRecord]) -> ActionRecord:
    """One action run. It is no child of this task for Prefect, which would cancel it while a step is at work."""
    return shown(f"action on {owner}", REMEDIATION, fn, _of_action)


def _of_action(record: ActionRecord) -> End:
    done = record.outcome == "done"
    return End("COMPLETED" if done else "FAILED", record.outcome.capitalize(), f"action run {record.act_run}: {'; '.join(record.said)}")


def step_done(step: Step, fn: Callable[[], tuple[str, str, str]]) -> tuple[str, str, str]:
    """One step: how it ended, what is said of it, what goes into its row."""
    return shown(f"{step.kind} · {step.of or step.owner}", REMEDIATION, fn, _of_step)


def _of_step(ended: tuple[str, str, str]) -> End:
    how, said, _ = ended
    return End("COMPLETED" if how == "done" else "FAILED", how.capitalize(), said)
