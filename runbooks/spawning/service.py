"""What may be done for an orchestrator that does not run its cycle: restart its service, or deploy a removed one again. As data."""

import json
import shlex

from runbooks.core.args.service import ServiceAsRead
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.typed_pods import OwnNames
from runbooks.core.verdict import Cause
from runbooks.parsers.railway import CAME_UP, ON_ITS_WAY, REDEPLOY, RESTART
from runbooks.spawning.typed import to_platform
from runbooks.spawning.view import SpawningView

DOWN = "orchestrator-down"
STARTED_S, BUILT_S = 30.0, 180.0  # design: a start logs its first cycle at once; a build takes minutes
BREAKS_OFF = "what it is doing now: a pod that it has just created may be left without a row"


def bring_back(v: SpawningView, sure: list[Cause]) -> Plan | str:
    """One plan, or why there is none; "" where the orchestrator is not surely down or the platform is not known."""
    running = v.e.service
    if running is None or not any(c.slug == DOWN for c in sure):
        return ""
    if coming := next((d for d in v.e.newer if d.status in ON_ITS_WAY), None):
        return f"the service is not restarted: {coming.words} is on its way ({coming.status})"
    if isinstance(v.e.variables, Known) and v.e.variables.value.private_fault:
        return "the service is not restarted before it has its key: setting the variable deploys it again"
    last = v.orch.last_cycle if v.orch else None
    args = ServiceAsRead(deployment=running.id, status=running.status, last_cycle=last.isoformat() if last else None).plain()
    if running.status in CAME_UP:
        return Plan(name="restart the service", steps=(_restart(args, running.id, v.e.names),), for_causes=(DOWN,), settle_s=STARTED_S,
                    why="a restart repeats what ended it: read the last lines of its log first")  # fmt: skip
    if running.status == "REMOVED":
        return Plan(name="deploy it again", steps=(_redeploy(args, running.id, v.e.names),), for_causes=(DOWN,), settle_s=BUILT_S,
                    why="somebody removed the deployment, perhaps to stop all spawning: ask first")  # fmt: skip
    return f"the service is not started from here: {running.words} is {running.status}, and the same code would end the same way"


def _restart(args: dict[str, object], deployment: str, names: OwnNames) -> Step:
    return Step(
        kind="restart-service", owner="orchestrator", args=args, commands=(_call(RESTART, deployment, names),),
        effect="the orchestrator's program starts again from the same build", loses=BREAKS_OFF,
    )  # fmt: skip


def _redeploy(args: dict[str, object], deployment: str, names: OwnNames) -> Step:
    return Step(
        kind="redeploy-service", owner="orchestrator", args=args, commands=(_call(REDEPLOY, deployment, names),),
        effect="the platform builds and starts the removed deployment's code again", loses="nothing",
    )  # fmt: skip


def _call(query: str, deployment: str, names: OwnNames) -> str:
    return to_platform(names, shlex.quote(json.dumps({"query": query, "variables": {"id": deployment}})))
