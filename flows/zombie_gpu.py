"""The zombie-gpu runbook as a Prefect flow."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.entry import run_by_name
from runbooks.core.policy import Mode


@flow(name="zombie-gpu", flow_run_name="zombie-gpu {target}", persist_result=False, retries=0)
def zombie_gpu(
    target: str,
    mode: Mode = Mode.DIAGNOSE,
    fleet: str | None = None,
    policy: str | None = None,
    choice: str = "",
    out: str | None = None,
    trigger: str = "by hand",
) -> State[Any]:
    """Busy on paper, not working: finds out why a node's GPUs do nothing, or only look busy.

    Args:
        target: node name in the fleet file; `local` is this machine.
        mode: diagnose reads and reports; approve asks a person before any change; auto acts where the policy allows it.
        fleet: path of the fleet file on the worker. Empty: this machine alone.
        policy: path of the policy file on the worker. Empty: nothing is automatic.
        choice: name of the plan to prefer, for example "clean up and restart".
        out: folder for the reports. Empty: as the fleet file says.
        trigger: what started this run, for the report.
    """
    return run_by_name("zombie-gpu", target, mode, fleet, policy, choice, out, trigger)
