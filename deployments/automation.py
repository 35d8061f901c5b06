"""Example: a Prefect automation that starts a runbook from any Prefect event. `python -m deployments.automation RUNBOOK EVENT`.

The event's resource names the target in `gpu-runbooks.target` (events of the gateway do), else its id does. The run is a
worker's: nobody checks it against alerts.yaml, so it only diagnoses, and two events start two runs. Alerts belong to the gateway.
"""

import sys
from typing import Any

from prefect.automations import Automation
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import RunDeployment
from prefect.events.schemas.automations import EventTrigger, Posture

from deployments.cli.ending import ended
from flows import store
from flows.launch import deployment_name
from runbooks.core.policy import Mode

TARGET = "{{ event.resource.get('gpu-runbooks.target') or event.resource.id }}"


def _template(text: str) -> dict[str, str]:
    return {"__prefect_kind": "jinja", "template": text}


def start_on_event(runbook: str, event: str, fleet: str | None = None) -> Automation:
    """Creates the automation `RUNBOOK on EVENT`; one of that name that is there already is replaced."""
    name = f"{runbook} on {event}"
    deployment = store.ask(lambda c: c.read_deployment_by_name(deployment_name(runbook)))
    store.ask(lambda c: _remove(c, name))
    parameters: dict[str, Any] = {
        "target": _template(TARGET),
        "mode": Mode.DIAGNOSE.value,
        "trigger": _template("event {{ event.event }}"),
    }
    made = Automation(
        name=name,
        description=f"Diagnoses the event's target with {runbook}.",
        trigger=EventTrigger(expect={event}, posture=Posture.Reactive, threshold=1, within=0),
        actions=[
            RunDeployment(
                source="selected",
                deployment_id=deployment.id,
                parameters=parameters | ({"fleet": fleet} if fleet else {}),
            )
        ],
    ).create()
    assert isinstance(made, Automation)  # noqa: S101 - outside of a loop it is not a coroutine
    return made


def _remove(c: SyncPrefectClient, name: str) -> None:
    found = c.request("POST", "/automations/filter", json={"automations": {"name": {"any_": [name]}}}).json()
    for automation in found:
        c.request("DELETE", "/automations/{id}", path_params={"id": automation["id"]})


def main(words: list[str]) -> int:
    """RUNBOOK EVENT [FLEET FILE]."""
    if len(words) not in (2, 3):
        print(__doc__.strip().splitlines()[0], file=sys.stderr)
        return 2
    from deployments.serving import use_running_server

    use_running_server()
    made = start_on_event(*words)
    print(f"automation {made.name!r}: {made.id}")
    return 0


if __name__ == "__main__":
    raise SystemExit(ended(lambda: main(sys.argv[1:]), wants_json=False))
