"""Tells Prefect about alerts and outcomes, so that automations can follow. A nudge, never the record: may be lost."""

import logging
from typing import Any

from runbooks.core.names import slug

log = logging.getLogger("gateway.events")


def alert_event(outcome: str, target: str, run: str, payload: dict[str, Any]) -> None:
    """`gpu-runbooks.alert.<outcome>` about a target, related to its run. Never raises."""
    _emit(f"gpu-runbooks.alert.{outcome}", target, run, payload)


def run_event(outcome: str, target: str, run: str, payload: dict[str, Any]) -> None:
    """`gpu-runbooks.run.<outcome>` when a run that the gateway started has ended. Never raises."""
    _emit(f"gpu-runbooks.run.{outcome}", target, run, payload)


def _emit(event: str, target: str, run: str, payload: dict[str, Any]) -> None:
    from prefect.events import emit_event

    try:
        emit_event(
            event=event,
            resource={
                "prefect.resource.id": f"gpu-runbooks.target.{slug(target) if target else 'none'}",
                "prefect.resource.name": target or "none",
                "gpu-runbooks.target": target or "none",
            },
            related=[{"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.role": "flow-run"}] if run else [],
            payload=payload,
        )
    except Exception as e:
        log.warning("event %s not sent: %s", event, type(e).__name__)
