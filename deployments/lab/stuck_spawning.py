"""The stuck-spawning rehearsal: a pod that runs and costs money, whose worker was never started."""

import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from deployments.lab import fake_railway, fake_runpod
from deployments.lab.fake_railway import FakeRailway
from deployments.lab.fake_runpod import FakeRunPod
from deployments.lab.scenario import Scene
from deployments.lab.sshd import Sshd, public_key

WORKER, POD = "gpu-lab-worker", "labpod1"
NAMES = {
    n: f"GPU_RUNBOOKS_LAB_{n}" for n in ("RUNPOD_KEY", "RAILWAY_TOKEN", "DATABASE_URL", "POD_KEY", "POD_PUBLIC_KEY")
}
STORY = (
    "A pod was rented 15 minutes ago and is running, but its row still says spawning: its worker was never started. The pod is a real "
    "sshd, the worker's table a SQLite file, the worker a small program; provider and platform are stand-ins on loopback."
)
SCHEMA = (
    "CREATE TABLE workers (id text PRIMARY KEY, status text, created_at text, last_heartbeat text, updated_at text, "
    "runpod_id text); CREATE TABLE tasks (id text PRIMARY KEY, status text, worker_id text, generation_started_at text)"
)
PROGRAM = """\
import datetime, sqlite3, sys, time
while True:
    with sqlite3.connect(sys.argv[1], timeout=5) as db:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        db.execute("UPDATE workers SET status = 'active', last_heartbeat = ?, updated_at = ?", (now, now))
    time.sleep(2)
"""


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Builds the fault below `folder` and takes it away again, whatever happens."""
    runpod, railway = FakeRunPod(), FakeRailway()
    sshd = Sshd(folder, "pod", environment={"RUNPOD_POD_ID": POD}).start()
    try:
        started = datetime.now(UTC) - timedelta(minutes=15)
        runpod.add(POD, name=WORKER, started=started.timestamp(), port=sshd.port)
        railway.variables = {NAMES["POD_KEY"]: sshd.key.read_text(), NAMES["POD_PUBLIC_KEY"]: public_key(sshd.key)}
        for ago in (90, 60, 30, 1):
            railway.cycle(datetime.now(UTC) - timedelta(seconds=ago))
        _table(folder / "workers.db", started)
        yield Scene(
            story=STORY,
            runbook="stuck-spawning",
            target=f"worker/{WORKER}",
            fleet=_fleet(folder, runpod, railway),
            policy=_policy(folder),
            proof=lambda: _proof(folder / "workers.db"),
            secrets=_secrets(folder, sshd),
        )
    finally:
        sshd.stop()
        runpod.close()
        railway.close()


def _table(path: Path, started: datetime) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        row = (WORKER, "spawning", started.isoformat(), None, started.isoformat(), POD)
        db.execute("INSERT INTO workers VALUES (?, ?, ?, ?, ?, ?)", row)


def _secrets(folder: Path, sshd: Sshd) -> dict[str, str]:
    return {
        NAMES["RUNPOD_KEY"]: fake_runpod.KEY,
        NAMES["RAILWAY_TOKEN"]: fake_railway.TOKEN,
        NAMES["DATABASE_URL"]: f"sqlite+aiosqlite:///{folder / 'workers.db'}",
        NAMES["POD_KEY"]: sshd.key.read_text(),
    }


def _fleet(folder: Path, runpod: FakeRunPod, railway: FakeRailway) -> Path:
    program = folder / "lab_worker.py"
    program.write_text(PROGRAM, encoding="utf-8")
    (folder / "logs").mkdir()
    orchestrator = {
        "runpod": {"rest_url": f"{runpod.url}/v1", "rest2_url": f"{runpod.url}/v2", "graphql_url": f"{runpod.url}/graphql",
                   "key_env": NAMES["RUNPOD_KEY"], "timeout_s": 10},
        "database": {"url_env": NAMES["DATABASE_URL"]},
        "railway": {"url": railway.url, "project": "p", "environment": "e", "service": "s", "token_env": NAMES["RAILWAY_TOKEN"]},
        "process": {"match": re.escape(str(program)), "start": [sys.executable, str(program), str(folder / "workers.db")],
                    "log": str(folder / "logs" / "{worker}.log"), "lock": str(folder / "worker.lock"), "disks": ["/"]},
        "ssh": {"user": os.environ.get("USER") or _own_name(), "key_env": NAMES["POD_KEY"],
                "public_key_env": NAMES["POD_PUBLIC_KEY"], "trust_file": str(folder / "pod_host_keys.json")},
    }  # fmt: skip
    fleet = {"name": "lab", "nodes": [{"name": "this-machine", "local": True}], "orchestrator": orchestrator}
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump(fleet, sort_keys=False), encoding="utf-8")
    return path


def _own_name() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _policy(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text("mode: approve\nbudget: {nodes: 1000, window_s: 60}\n", encoding="utf-8")
    return path


def _proof(path: Path) -> str:
    time.sleep(2.5)
    with closing(sqlite3.connect(path)) as db:
        status, beat = db.execute("SELECT status, last_heartbeat FROM workers").fetchone()
    return f"the worker's own row says: status {status}, last heartbeat {beat or 'none'}"
