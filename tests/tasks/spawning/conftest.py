"""The whole orchestrator on loopback: fake provider and platform, real PostgreSQL, a real sshd as the pod."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deployments.lab import fake_railway, fake_runpod
from deployments.lab.fake_railway import FakeRailway
from deployments.lab.fake_runpod import FakeRunPod
from deployments.lab.sshd import Sshd, public_key
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.spawning.diagnose import Limits, diagnose
from runbooks.spawning.evidence import Evidence
from tasks.context import Context
from tasks.spawning.read import gather_stuck_spawning
from tasks.ssh.seen import LogInCheck
from tasks.transport.open import HostPool
from tests.support.postgres import Postgres

WORKER, POD = "gpu-20260101_000000-aa", "podaaaa1"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the session; each test empties the tables."""
    server = Postgres().start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pod_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """The sshd inside the pod."""
    with Sshd(tmp_path_factory.mktemp("pod"), "pod", environment={"RUNPOD_POD_ID": POD}) as sshd:
        yield sshd


class World:
    """One worker and everything around it."""

    def __init__(self, folder: Path, postgres: Postgres, sshd: Sshd) -> None:
        self.folder, self.db, self.sshd = folder, postgres, sshd
        self.runpod, self.railway = FakeRunPod(), FakeRailway()
        self.railway.variables = {
            "RUNPOD_SSH_PRIVATE_KEY": sshd.key.read_text(),
            "RUNPOD_SSH_PUBLIC_KEY": public_key(sshd.key),
        }
        self.railway.cycle()
        postgres.do("TRUNCATE workers, tasks")
        self.log = folder / "logs" / f"{WORKER}.log"
        self.lock = folder / "lock"
        self.fields: dict[str, Any] = {}

    def environment(self) -> dict[str, str]:
        """What the engine's process has."""
        return {
            "RUNPOD_API_KEY": fake_runpod.KEY,
            "RAILWAY_TOKEN": fake_railway.TOKEN,
            "DATABASE_URL": self.db.url,
            "RUNPOD_SSH_PRIVATE_KEY": self.sshd.key.read_text(),
            "GPU_RUNBOOKS_HOME": str(self.folder / "home"),
        }

    def row(
        self,
        status: str = "spawning",
        age_s: float = 900,
        beat_s: float | None = None,
        pod: str = POD,
        id: str = WORKER,
    ) -> None:
        """A worker's row."""
        now = datetime.now(UTC)
        beat = now - timedelta(seconds=beat_s) if beat_s is not None else None
        born = now - timedelta(seconds=age_s)
        self.db.do("INSERT INTO workers VALUES ($1, $2, $3, $4, $3, $5)", id, status, born, beat, pod or None)

    def pod(self, age_s: float = 900, **fields: Any) -> fake_runpod.FakePod:
        """The worker's pod, which is the real sshd."""
        started = datetime.now(UTC).timestamp() - age_s
        given = {"name": WORKER, "started": started, "port": self.sshd.port} | fields
        return self.runpod.add(POD, **given)

    def fleet(self) -> Fleet:
        """The fleet file."""
        me = {
            "runpod": {
                "rest_url": f"{self.runpod.url}/v1",
                "rest2_url": f"{self.runpod.url}/v2",
                "graphql_url": f"{self.runpod.url}/graphql",
                "timeout_s": 2,
            },
            "railway": {"url": self.railway.url, "project": "p", "environment": "e", "service": "s", "timeout_s": 5},
            "process": {
                "match": f"sleep 300[.]7 # {self.folder.name}|sh -c .*{self.folder.name}-worker",
                "start": ["sh", "-c", f"sleep 30; : {self.folder.name}-worker"],
                "log": str(self.folder / "logs" / "{worker}.log"),
                "lock": str(self.lock),
                "disks": ["/"],
            },
            "ssh": {"user": "root", "trust_file": str(self.folder / "trust.json")},
        }
        me |= self.fields
        limits = {"stuck-spawning": {"gap_s": 0.05, "watch_s": 0.3}}
        return Fleet.model_validate({"nodes": [Node(name="local", local=True)], "orchestrator": me, "limits": limits})

    def context(self, target: str = f"worker/{WORKER}") -> Context:
        """One run's context; two reads of the provider do not wait."""
        limits = load_runbook("stuck-spawning").limit_values({"gap_s": 0.05})
        return Context(fleet=self.fleet(), target=target, open_host=HostPool(), limits=limits, log_in=LogInCheck())

    def look(self, context: Context | None = None) -> tuple[Evidence, Diagnosis]:
        """Gather and judge."""
        context = context or self.context()
        evidence = gather_stuck_spawning(context)
        assert Evidence.model_validate(evidence.model_dump(mode="json")) == evidence
        text = evidence.model_dump_json()
        assert "PRIVATE KEY" not in text
        assert fake_runpod.KEY not in text
        return evidence, diagnose(evidence, Limits.model_validate(context.limits))


@pytest.fixture
def world(tmp_path: Path, postgres: Postgres, pod_sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A fresh world."""
    made = World(tmp_path, postgres, pod_sshd)
    for name in ("SUPABASE_URL", "SUPABASE_SERVICE_ROLE_KEY", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    yield made
    made.runpod.close()
    made.railway.close()


__all__ = ["POD", "WORKER", "World", "os"]
