"""Which flow run this code runs in."""

from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext


def current_run() -> FlowRun | None:
    """The flow run, as it was when it began; None outside one."""
    context = FlowRunContext.get()
    return context.flow_run if context else None
