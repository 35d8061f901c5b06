"""ssh-auth-failure and stuck-spawning through the engine: real sshd, real PostgreSQL, the stand-in provider."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from deployments.lab.sshd import Sshd
from flows import store
from flows.approval import answer_run
from runbooks.core.fleet import Fleet
from tests.support.engine_rig import Rig
from tests.support.postgres import Postgres
from tests.support.sshd_room import Room
from tests.tasks.spawning.conftest import POD, WORKER, World

pytestmark = pytest.mark.xdist_group("prefect")
POLICY = """
mode: auto
kinds:
  repair-ssh-path: {mode: auto, cooldown_s: 0}
  mark-worker-row: {mode: auto, cooldown_s: 0}
budget: {nodes: 100}
storm: {settle_s: 0.05, alike: 1000}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass."""
    path = Path(tempfile.mkdtemp(prefix="gpu-runbooks-e2e-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Runs:
    """Runs of one runbook on one fleet."""

    def __init__(self, rig: Rig, folder: Path, fleet: Fleet, env: dict[str, str] | None = None) -> None:
        self.rig, self.folder, self.env = rig, folder, env or {}
        data = fleet.model_dump(mode="json", exclude_defaults=True) | {"name": f"f-{uuid4().hex[:8]}"}
        (folder / "fleet.yaml").write_text(yaml.safe_dump(data))
        (folder / "policy.yaml").write_text(POLICY)

    def run(self, slug: str, target: str, mode: str) -> str:
        """To the end of the process; the run's id."""
        id_file = self.folder / f"{uuid4().hex[:6]}.id"
        given = {"target": target, "mode": mode, "fleet": str(self.folder / "fleet.yaml"),
                 "policy": str(self.folder / "policy.yaml"), "out": str(self.folder / "out")}  # fmt: skip
        job = {
            "do": "run",
            "slug": slug,
            "parameters": given,
            "id_file": str(id_file),
            "env": {"FAULT": "", **self.env},
        }
        self.rig.wait(self.rig.start(job))
        return id_file.read_text() if id_file.exists() else ""

    def report(self) -> dict[str, Any]:
        """The newest."""
        found = sorted(
            (json.loads(p.read_text()) for p in (self.folder / "out").rglob("2*.json")),
            key=lambda r: str(r["ended_at"]),
        )
        assert found, (self.rig.home / "children.log").read_text()[-3000:]
        return dict(found[-1])

    def work(self) -> None:
        """What a worker does."""
        self.rig.wait(self.rig.start({"do": "work", "env": {"FAULT": "", **self.env}}))


def outcome(run_id: str) -> str:
    return str(store.read_run(run_id).labels.get("outcome"))


def test_a_path_is_repaired_by_itself_and_proven_by_a_fresh_log_in(rig: Rig, folder: Path) -> None:
    room = Room(folder)
    room.keys.chmod(0o666)
    with room:
        runs = Runs(rig, folder, room.fleet(folder))
        assert outcome(runs.run("ssh-auth-failure", "room", "diagnose")) == "sick", str(
            {k: runs.report()[k] for k in ("headline", "guards", "timeline")}
        )
        assert room.keys.stat().st_mode & 0o777 == 0o666
        assert outcome(runs.run("ssh-auth-failure", "room", "auto")) == "fixed", runs.report()
        assert room.keys.stat().st_mode & 0o777 == 0o644
        report = runs.report()
        assert report["acts"][0]["outcome"] == "done"
        assert report["after"]["state"] == "healthy"
        assert "Accepted publickey" in room.read_log()
        assert "-----BEGIN" not in json.dumps(report)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of this module."""
    server = Postgres().start()
    yield server
    server.stop()


@pytest.fixture
def world(folder: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One worker and everything around it."""
    with Sshd(folder, "pod") as sshd:
        made = World(folder, postgres, sshd)
        yield made
        made.runpod.close()
        made.railway.close()


def test_a_row_follows_its_pod_by_itself(rig: Rig, folder: Path, world: World) -> None:
    world.row()
    runs = Runs(rig, folder, world.fleet(), world.environment())
    assert outcome(runs.run("stuck-spawning", f"worker/{WORKER}", "auto")) == "fixed", runs.report()
    assert world.db.do("SELECT status FROM workers")[0]["status"] == "terminated"


def test_a_pod_is_ended_only_by_a_person_and_only_once(rig: Rig, folder: Path, world: World) -> None:
    world.row()
    world.pod(gpus=0)
    runs = Runs(rig, folder, world.fleet(), world.environment())
    run = runs.run("stuck-spawning", f"worker/{WORKER}", "auto")
    assert outcome(run) == "waiting", runs.report()
    assert world.runpod.count("DELETE") == 0
    answer_run(run, {"decision": "approve", "who": "ana"})
    runs.work()
    assert POD not in world.runpod.pods
    assert world.runpod.count("DELETE") == 1
    assert runs.report()["acts"][0]["outcome"] == "done"


def test_a_pod_that_comes_up_during_approval_is_left_alone(rig: Rig, folder: Path, world: World) -> None:
    world.row()
    pod = world.pod(gpus=0)
    runs = Runs(rig, folder, world.fleet(), world.environment())
    run = runs.run("stuck-spawning", f"worker/{WORKER}", "approve")
    assert outcome(run) == "waiting"
    pod.gpus = 1
    world.db.do("UPDATE workers SET status = 'active', last_heartbeat = now(), updated_at = now()")
    answer_run(run, {"decision": "approve", "who": "ana"})
    runs.work()
    assert world.runpod.count("DELETE") == 0
    assert POD in world.runpod.pods
