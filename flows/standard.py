"""The one shape of a runbook's flow: same parameters, same form in the UI, the engine behind it."""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State

from flows.entry import run_by_name
from runbooks.core.policy import Mode

ARGS = """

    Args:
        target: {target}
        mode: diagnose reads and reports; approve asks a person before any change; auto acts where the policy allows it.
        fleet: path of the fleet file on the worker. Empty: this machine alone.
        policy: path of the policy file on the worker. Empty: nothing is automatic.
        choice: name of the plan to prefer, for example "clean up and restart".
        out: folder for the reports. Empty: as the fleet file says.
        trigger: what started this run, for the report.
        options: the runbook's own options, name to text.
"""


def standard_flow(slug: str, about: str, target: str) -> Flow[..., State[Any]]:
    """A runbook as a Prefect flow named like its slug. `about` and `target` are what the UI says of it."""

    def runbook(
        target: str,
        mode: Mode = Mode.DIAGNOSE,
        fleet: str | None = None,
        policy: str | None = None,
        choice: str = "",
        out: str | None = None,
        trigger: str = "by hand",
        options: dict[str, str] | None = None,
    ) -> State[Any]:
        return run_by_name(slug, target, mode, fleet, policy, choice, out, trigger, dict(options or {}))

    runbook.__name__ = runbook.__qualname__ = slug.replace("-", "_")
    runbook.__doc__ = about + ARGS.format(target=target)
    return Flow(fn=runbook, name=slug, flow_run_name=f"{slug} {{target}}", persist_result=False, retries=0)
