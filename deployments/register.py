"""Registers the deployments on the Prefect server: idempotent, by module entrypoints."""

import hashlib
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import ObjectNotFound
from prefect.utilities.callables import parameter_schema

from deployments.server import POOL
from flows import store
from flows.specs import SLUGS
from runbooks.core.knowledge import load_runbook


@dataclass(frozen=True)
class Spec:
    """One deployment."""

    entrypoint: str  # module.function
    pool: bool = True  # False: no worker ever runs it
    description: str = ""
    tags: tuple[str, ...] = ()
    cron: str = ""
    every_s: int = 0
    active: bool = True


def specs() -> tuple[Spec, ...]:
    """All deployments: one per runbook, the nightly, the standing sweep, and the engine's records."""
    runbooks = tuple(
        Spec(
            f"flows.{s.replace('-', '_')}.{s.replace('-', '_')}",
            description=_describe(s),
            tags=(store.RUNBOOK_TAG, f"runbook:{s}"),
        )
        for s in SLUGS
    )
    return (
        *runbooks,
        Spec("flows.nightly.nightly", description=NIGHTLY, tags=(store.RUNBOOK_TAG, "runbook:nightly"), cron="30 3 * * *", active=False),
        Spec("flows.nightly.sweep", description=SWEEP, tags=(store.RUNBOOK_TAG, "runbook:sweep"), every_s=300, active=False),
        Spec("flows.act.act", pool=False, description="Record and lock of one change. Never start it by hand."),
        Spec("flows.act.budget_slot", pool=False, description="A place in the fleet's budget. Never start it by hand."),
    )


NIGHTLY = (
    "Every runbook that can apply, on every node, in diagnose mode; one report. Schedule off until you switch it on."
)
SWEEP = "The nightly's zombie-GPU check every five minutes (off until you switch it on)."


def _describe(slug: str) -> str:
    book = load_runbook(slug)
    causes = "\n".join(f"- **{c.title}**{' (leave alone)' if c.innocent else ''}" for c in book.causes.values())
    symptoms = "\n".join(f"- {s}" for s in book.symptoms)
    return f"{book.summary}\n\nSymptoms:\n{symptoms}\n\nCauses it tells apart:\n{causes}"


def fingerprint() -> str:
    """Changes when anything that a registration depends on changes."""
    import prefect

    h = hashlib.sha256(prefect.__version__.encode())
    root = Path(__file__).parent.parent
    files = [*root.glob("flows/*.py"), *root.glob("runbooks/*/runbook.yaml"), Path(__file__)]
    for path in sorted(files):
        h.update(path.read_bytes())
    return h.hexdigest()


def register_all() -> int:
    """Creates or updates pool and deployments. Returns how many deployments there are."""
    store.ask(_make_pool)
    found = specs()
    for spec in found:
        store.ask(partial(_register, spec))
    return len(found)


def _make_pool(c: SyncPrefectClient) -> None:
    try:
        c.read_work_pool(POOL)
    except ObjectNotFound:
        c.create_work_pool(WorkPoolCreate(name=POOL, type="process", description="Runs GPU runbooks"))


def load(entrypoint: str) -> Flow[Any, Any]:
    """The flow object behind a module entrypoint."""
    module, name = entrypoint.rsplit(".", 1)
    found = getattr(import_module(module), name)
    if not isinstance(found, Flow):
        raise TypeError(f"{entrypoint} is not a flow")
    return found


def _register(spec: Spec, c: SyncPrefectClient) -> None:
    flow = load(spec.entrypoint)
    flow_id = c.create_flow(flow)
    try:
        existing = c.read_deployment_by_name(f"{flow.name}/{flow.name}")
    except ObjectNotFound:
        existing = None
    c.create_deployment(  # the server updates in place when flow and name are the same
        flow_id=flow_id,
        name=flow.name,
        entrypoint=spec.entrypoint,
        description=spec.description,
        tags=list(spec.tags),
        work_pool_name=POOL if spec.pool else None,
        parameter_openapi_schema=parameter_schema(flow).model_dump_for_openapi(),
        enforce_parameter_schema=spec.pool,
        schedules=None if existing else _schedules(spec),
        pull_steps=[],
    )


def _schedules(spec: Spec) -> list[DeploymentScheduleCreate]:
    if spec.cron:
        return [DeploymentScheduleCreate(schedule=CronSchedule(cron=spec.cron, timezone="UTC"), active=spec.active)]
    if spec.every_s:
        from datetime import timedelta

        return [
            DeploymentScheduleCreate(
                schedule=IntervalSchedule(interval=timedelta(seconds=spec.every_s)), active=spec.active
            )
        ]
    return []
