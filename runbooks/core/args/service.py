"""Arguments of the actions on the orchestrator's own service."""

from runbooks.core.args.base import Args


class ServiceAsRead(Args):
    """The deployment in service as it was judged, and the newest cycle that its log showed (ISO 8601; None: none)."""

    deployment: str
    status: str
    last_cycle: str | None
