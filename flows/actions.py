"""The table of everything that can be changed: action kind, how much it can hurt, and the function that does it."""

from collections.abc import Callable
from dataclasses import dataclass

from runbooks.core.plan import Risk, Step
from tasks.context import ActResult, Context
from tasks.remediation.containers import restart_container
from tasks.remediation.gpus import reset_gpu
from tasks.remediation.jobs import restart_job
from tasks.remediation.leader import reset_node_jobs
from tasks.remediation.processes import terminate_processes
from tasks.remediation.quarantine import quarantine_node


@dataclass(frozen=True)
class Action:
    """One kind of change."""

    risk: Risk
    act: Callable[[Step, Context], ActResult]


ACTIONS: dict[str, Action] = {
    "terminate-processes": Action(Risk.DISRUPTIVE, terminate_processes),
    "restart-job": Action(Risk.DISRUPTIVE, restart_job),
    "restart-container": Action(Risk.DISRUPTIVE, restart_container),
    "reset-node-jobs": Action(Risk.DISRUPTIVE, reset_node_jobs),
    "reset-gpu": Action(Risk.DESTRUCTIVE, reset_gpu),
    "quarantine-node": Action(Risk.DESTRUCTIVE, quarantine_node),
}
"""Explicit: an action is possible only if it stands here."""


def risks() -> dict[str, Risk]:
    """Risk of every kind this engine can do."""
    return {kind: action.risk for kind, action in ACTIONS.items()}
