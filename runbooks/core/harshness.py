"""How much each kind of action takes away, and the order that follows: of the plans for a cause the mildest stands first. Pure."""

from collections.abc import Sequence
from enum import IntEnum

from runbooks.core.plan import Plan
from runbooks.core.verdict import Diagnosis


class Harsh(IntEnum):
    """What is gone afterwards, the worst that a kind can do."""

    NOTHING = 0
    A_RETRY = 1  # a cache, a count, a connection: had again by itself or by one line
    UNSAVED = 2  # a process's work since its last save
    A_PLACE = 3  # a pod's GPUs or a node's capacity, and what was beside its volumes
    DATA = 4


LOSES = {
    Harsh.NOTHING: "nothing that it needs",
    Harsh.A_RETRY: "a cache or a connection",
    Harsh.UNSAVED: "what a process has not saved",
    Harsh.A_PLACE: "a pod's or node's place",
    Harsh.DATA: "data",
}

HARSHNESS: dict[str, Harsh] = {
    kind: level
    for level, kinds in {
        Harsh.NOTHING: (
            "add-public-key", "continue-processes", "copy-checkpoint", "create-checkpoint-folder", "normalise-key", "normalise-secret",
            "probe-rendezvous", "put-back-checkpoint", "quarantine-checkpoint", "remount-fuse", "reset-node-jobs", "restart-job",
            "restart-raylet", "restore-folder-mode", "restrict-key-mode", "start-engine", "start-etcd", "start-worker",
            "start-worker-unverified",
        ),
        Harsh.A_RETRY: (
            "defragment-etcd", "delete-run-keys", "free-engine-space", "mark-worker-row", "remove-known-host", "repair-ssh-path",
            "repoint-latest", "restore-archived", "restore-run-keys", "set-railway-variable",
        ),
        Harsh.UNSAVED: (
            "recreate-container", "reset-gpu", "restart-application", "restart-container", "stop-ray-job", "stop-supervisor",
            "stop-unit", "terminate-processes",
        ),
        Harsh.A_PLACE: ("quarantine-node", "stop-pod"),
        Harsh.DATA: ("abort-upload", "finish-deletion", "prune-checkpoints", "remove-kept-container", "terminate-pod"),
    }.items()
    for kind in kinds
}  # fmt: skip
"""Every kind stands here once; one that does not is taken for the worst."""


def harshness(plan: Plan) -> Harsh:
    """That of its harshest step."""
    return max((HARSHNESS.get(s.kind, Harsh.DATA) for s in plan.steps), default=Harsh.NOTHING)


def mildest_first(found: Diagnosis) -> Diagnosis:
    """The judgment with the plans for one cause in that order; each that has a milder one before it says so.

    Plans for different causes stay as the runbook has them: what must be repaired first stands first there.
    """
    rest, plans = list(found.plans), list[Plan]()
    while rest:
        plans.append(next(p for p in rest if not milder(p, rest)))
        rest.remove(plans[-1])
    told = tuple(_told(plan, milder(plan, plans)) for plan in plans)
    return found if told == found.plans else found.model_copy(update={"plans": told})


def milder(plan: Plan, others: Sequence[Plan]) -> list[Plan]:
    """Those of the others that are milder and for one of the same causes."""
    return [p for p in others if harshness(p) < harshness(plan) and set(p.for_causes) & set(plan.for_causes)]


def _told(plan: Plan, before: list[Plan]) -> Plan:
    if not before:
        return plan
    words = f"harsher than “{before[0].name}”: it can cost {LOSES[harshness(plan)]}"
    return plan if words in plan.why else plan.model_copy(update={"why": "; ".join(filter(None, (plan.why, words)))})
