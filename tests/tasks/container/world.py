"""Gather, judge and act on one container of the test's engine, as the engine room would."""

from collections.abc import Callable
from typing import Any

from runbooks.container.diagnose import Limits, diagnose
from runbooks.container.evidence import Evidence
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Certainty, Diagnosis
from tasks.container.act_engine import free_engine_space, start_engine, stop_supervisor, stop_unit
from tasks.container.act_mounts import remount_fuse
from tasks.container.act_recreate import recreate_container, remove_kept_container, restart_application
from tasks.container.act_start import start_container
from tasks.container.read import gather_container_death
from tasks.context import ActionResult, Context
from tasks.transport.local import LocalHost
from tests.support.docker_engine import Engine

ACTS: dict[str, Callable[[Step, Context], ActionResult]] = {
    "recreate-container": recreate_container,
    "start-container": start_container,
    "restart-application": restart_application,
    "remove-kept-container": remove_kept_container,
    "start-engine": start_engine,
    "free-engine-space": free_engine_space,
    "stop-supervisor": stop_supervisor,
    "stop-unit": stop_unit,
    "remount-fuse": remount_fuse,
}


class World:
    """One container of one engine."""

    def __init__(self, engine: Engine, name: str, limits: dict[str, Any] | None = None, **fields: Any) -> None:
        it = ManagedContainer(
            name=name, node="n", engine=engine.argv, socket=str(engine.socket), daemon_pidfile=str(engine.pidfile),
            disks=(str(engine.data),), **fields,
        )  # fmt: skip
        values = load_runbook("container-death").limit_values({"work_window_s": 0.8} | (limits or {}))
        self.limits = Limits(**values)
        fleet = Fleet(nodes=(Node(name="n", local=True),), containers=(it,))
        self.context = Context(fleet=fleet, target="n", open_host=lambda n: LocalHost(n.name), limits=values)

    def gather(self) -> Evidence:
        return gather_container_death(self.context)

    def judge(self) -> Diagnosis:
        return diagnose(self.gather(), self.limits)

    def act(self, plan: Plan) -> list[str]:
        return [line for step in plan.steps for line in ACTS[step.kind](step, self.context).said]


def confirmed(diagnosis: Diagnosis) -> list[str]:
    """Slugs of confirmed causes."""
    return [c.slug for c in diagnosis.causes if c.certainty is Certainty.CONFIRMED]
