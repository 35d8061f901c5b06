"""The two sides of a fleet on loopback: the fake provider's pods, and rows in a real PostgreSQL, by SQL and by REST."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from deployments.lab import fake_runpod
from deployments.lab.fake_runpod import FakePod, FakeRunPod
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.orchestrator.diagnose import diagnose
from runbooks.orchestrator.evidence import Evidence
from runbooks.orchestrator.sides import Limits
from tasks.context import Context
from tasks.orchestrator.read import gather_fleet_sync
from tasks.transport.open import HostPool
from tests.support import orchestrator_incidents as incidents
from tests.support.postgres import run_sql
from tests.support.postgrest import PostgRest


class FleetWorld:
    """Workers and pods; `way` says how the rows are read: sql or rest."""

    def __init__(self, there: PostgRest, way: str) -> None:
        self.there, self.way, self.url = there, way, there.database.url
        self.runpod = FakeRunPod()
        self.both("gpu-w0")

    def environment(self) -> dict[str, str]:
        """What the engine's process has."""
        rows = {"DATABASE_URL": self.url} if self.way == "sql" else {
            "DATABASE_URL": "", "SUPABASE_URL": self.there.url, "SUPABASE_SERVICE_ROLE_KEY": self.there.service_key}  # fmt: skip
        return {"RUNPOD_API_KEY": fake_runpod.KEY} | rows

    def row(self, id: str, status: str = "active", *, age_s: float = 7200, beat_s: float | None = 5, **metadata: Any) -> None:
        """A row; its pod is pod-ID unless `runpod_id` says another."""
        incidents.rows(self.url, "workers", incidents.worker(datetime.now(UTC), id, status, age_s=age_s, beat_s=beat_s, **metadata))

    def pod(self, id: str, name: str, age_s: float = 7200, **fields: Any) -> FakePod:
        """A pod, so old."""
        return self.runpod.add(id, name=name, started=time.time() - age_s, **fields)

    def both(self, id: str) -> None:
        """A worker that is well, with its pod."""
        self.row(id)
        self.pod(f"pod-{id}", id)

    def do(self, sql: str, *values: Any) -> list[Any]:
        """Rows of one statement."""
        return run_sql(self.url, sql, *values)

    def status(self, id: str) -> str:
        """What the row says."""
        return str(self.do("SELECT status FROM workers WHERE id = $1", id)[0]["status"])

    def fleet(self) -> Fleet:
        """The fleet file."""
        me = {
            "runpod": {"rest_url": f"{self.runpod.url}/v1", "rest2_url": f"{self.runpod.url}/v2",
                       "graphql_url": f"{self.runpod.url}/graphql", "timeout_s": 2},
            "database": {"workers": {"metadata": "metadata", "changed": "created_at"}, "timeout_s": 5},
        }  # fmt: skip
        limits = {"fleet-sync": {"gap_s": 0.05}}
        return Fleet.model_validate({"nodes": [Node(name="local", local=True)], "orchestrator": me, "limits": limits})

    def context(self, limits: Mapping[str, Any] | None = None) -> Context:
        """One run's context."""
        values = load_runbook("fleet-sync").limit_values({"gap_s": 0.05} | dict(limits or {}))
        return Context(fleet=self.fleet(), target="fleet", open_host=HostPool(), limits=values)

    def look(self, context: Context | None = None) -> tuple[Evidence, Diagnosis]:
        """Gather and judge."""
        context = context or self.context()
        evidence = gather_fleet_sync(context)
        assert Evidence.model_validate(evidence.model_dump(mode="json")) == evidence
        assert fake_runpod.KEY not in evidence.model_dump_json()
        return evidence, diagnose(evidence, Limits.model_validate(context.limits))
