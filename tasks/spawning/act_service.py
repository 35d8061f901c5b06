"""Restarts the orchestrator's service on its platform, or deploys a removed one again; only as it was judged."""

from datetime import datetime

from runbooks.core.args.service import ServiceAsRead
from runbooks.core.refusal import RefusalCode
from runbooks.core.times import utc
from runbooks.parsers.railway import ON_ITS_WAY
from runbooks.spawning.parsers.orchestrator_log import parse_orchestrator_log
from tasks.arguments import takes
from tasks.clients.railway import RailwayClient
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.unseen import UNSEEN
from tasks.spawning.railway import LINES, platform_of
from tasks.transport.base import TransportError


@takes(ServiceAsRead)
def restart_service(a: ServiceAsRead, context: Context) -> ActionResult:
    """Start the program of the deployment in service again, from the same build.

    Refused when another deployment is in service or on its way, its status changed, or its log shows a newer cycle."""
    client = platform_of(context)
    try:
        _check(a, client, context)
        client.restart(a.deployment)
    finally:
        client.close()
    return ActionResult(said=(f"deployment {a.deployment} is started again", UNSEEN))


@takes(ServiceAsRead)
def redeploy_service(a: ServiceAsRead, context: Context) -> ActionResult:
    """Deploy a removed deployment's code again. Refused as a restart is."""
    client = platform_of(context)
    try:
        _check(a, client, context)
        made = client.redeploy(a.deployment)
    finally:
        client.close()
    return ActionResult(said=(f"deployment {made} is made from {a.deployment}", UNSEEN))


def _check(a: ServiceAsRead, client: RailwayClient, context: Context) -> None:
    try:
        running, newer = client.service()
        log = parse_orchestrator_log(context.redactor.text(client.log(a.deployment, LINES)), "")
    except (TransportError, ValueError) as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the service could not be read again: {e}") from None
    if running is None or (running.id, running.status) != (a.deployment, a.status):
        now = f"{running.words} ({running.status})" if running else "no deployment"
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{now} is in service by now")
    if coming := next((d for d in newer if d.status in ON_ITS_WAY), None):
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{coming.words} is on its way by now ({coming.status})")
    last = log.last_cycle
    if last is not None and (a.last_cycle is None or last > datetime.fromisoformat(a.last_cycle)):
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the orchestrator cycles again: its newest cycle is of {utc(last)}")
