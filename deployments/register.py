"""Registers the deployments on the Prefect server: idempotent, by module entrypoints."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import ObjectNotFound
from prefect.utilities.callables import parameter_schema

from deployments import old_records
from deployments.catalog import ZONE, DeploymentSpec, programs
from deployments.pool import POOL
from flows import records, store
from flows.artifacts import start_path

FLEET = "GPU_RUNBOOKS_FLEET"


def fingerprint() -> str:
    """Changes when anything that a registration depends on changes."""
    import prefect

    h = hashlib.sha256(prefect.__version__.encode())
    root = Path(__file__).parent.parent
    files = [*root.glob("flows/**/*.py"), *root.glob("runbooks/**/runbook.yaml"), Path(__file__).with_name("catalog.py")]
    for path in (*sorted(files), Path(__file__)):
        h.update(path.read_bytes())
    return h.hexdigest()


def register_all(fleet: str | None = None, policy: str | None = None) -> int:
    """Creates or updates pool and deployments. Returns how many deployments there are.

    `fleet`, `policy`: files that the forms are filled with and whose names they offer. None: as registered before.
    """
    store.ask(_make_pool)
    records.make_flows()
    found = programs(start_path())
    given = {"fleet": fleet, "policy": policy}
    for spec in found:
        store.ask(partial(_register, spec, {k: v for k, v in given.items() if v is not None}))
    old_records.retire_and_say()
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


def _register(spec: DeploymentSpec, given: dict[str, str], c: SyncPrefectClient) -> None:
    flow = load(spec.entrypoint)
    flow_id = c.create_flow(flow)
    try:
        existing = c.read_deployment_by_name(f"{flow.name}/{spec.name}")
    except ObjectNotFound:
        existing = None
    filled = (existing.parameters if existing else {}) | {k: v for k, v in given.items() if k in spec.takes}
    with offering(filled.get("fleet")):
        form = parameter_schema(flow).model_dump_for_openapi()
    says: dict[str, Any] = {
        "entrypoint": spec.entrypoint,
        "description": spec.description,
        "tags": list(spec.tags),
        "parameters": {k: v for k, v in filled.items() if v},
        "parameter_openapi_schema": form,
        "enforce_parameter_schema": True,
        "pull_steps": [],
        "work_pool_name": POOL,
    }
    if existing:  # only what is named here changes: schedules stay as people set them in the UI
        c.update_deployment(existing.id, DeploymentUpdate(**says))
    else:
        c.create_deployment(flow_id=flow_id, name=spec.name, schedules=_schedules(spec), **says)


@contextmanager
def offering(fleet: Any) -> Iterator[None]:
    """While it lasts, forms are made for that fleet file (flows/form.py)."""
    before = os.environ.get(FLEET)
    if fleet:
        os.environ[FLEET] = str(fleet)
    try:
        yield
    finally:
        if fleet and before is None:
            os.environ.pop(FLEET, None)
        elif fleet and before is not None:
            os.environ[FLEET] = before


def _schedules(spec: DeploymentSpec) -> list[DeploymentScheduleCreate]:
    """Off at first: `up` is for one machine, and starts nothing by itself."""
    if spec.cron:
        cron = CronSchedule(cron=spec.cron, timezone=ZONE)
        return [DeploymentScheduleCreate(schedule=cron, active=False, slug=spec.name)]
    if spec.every_s:
        every = IntervalSchedule(interval=timedelta(seconds=spec.every_s))
        return [DeploymentScheduleCreate(schedule=every, active=False, slug=spec.name)]
    return []
