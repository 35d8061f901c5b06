"""How long runs are kept: the server's own clearing takes what ended long ago, and no lock, question or record that still counts."""

import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Pending, Suspended

from deployments.retention import KEPT, SERVER_ENV
from flows import store
from runbooks.core.policy import LONGEST_WINDOW_S
from tests.support.engine_rig import REPO, Rig

DATABASE = "state/prefect/prefect.db"
CLEAR = """
import asyncio
from prefect.server.database import provide_database_interface
from prefect.server.services.db_vacuum import vacuum_old_flow_runs
asyncio.run(vacuum_old_flow_runs(db=provide_database_interface()))
"""


def made(rig: Rig, name: str, state: State[Any], age: timedelta) -> str:
    """A run that came into its state so long ago."""
    about: dict[str, Any] = {"parameters": {"target": "x"}, "key": f"kept/{name}", "name": name, "tags": ["kept"], "labels": {}}
    run = store.create_run("zombie-gpu/zombie-gpu", state=state, **about)
    at = f"{datetime.now(UTC) - age:%Y-%m-%d %H:%M:%S.%f}"
    with sqlite3.connect(rig.home / DATABASE, timeout=20) as db:
        ended = at if state.is_final() else None
        db.execute("UPDATE flow_run SET created = ?, end_time = ? WHERE id = ?", (at, ended, str(run.id)))
    return str(run.id)


def delete(run: str) -> None:
    store.ask(lambda c: c.delete_flow_run(UUID(run)))


def is_there(run: str) -> bool:
    try:
        return bool(store.read_run(run))
    except ObjectNotFound:
        return False


def test_what_ended_long_ago_goes_and_nothing_that_still_counts(rig: Rig) -> None:
    ended = made(rig, "ended long ago", Completed(), KEPT + timedelta(days=1))
    counts = made(rig, "in the longest window of a policy", Completed(), timedelta(seconds=LONGEST_WINDOW_S) + timedelta(days=1))
    lock = made(rig, "an action that nobody ended", Pending(), 2 * KEPT)
    asks = made(rig, "a question", Suspended(), 2 * KEPT)
    url = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{rig.home / DATABASE}"}
    try:
        subprocess.run([sys.executable, "-c", CLEAR], env=os.environ | SERVER_ENV | url, check=True, timeout=120)
        assert [is_there(r) for r in (ended, counts, lock, asks)] == [False, True, True, True]
    finally:
        for run in filter(is_there, (counts, lock, asks)):
            delete(run)


def test_the_server_that_we_start_keeps_them_as_long(rig: Rig) -> None:
    """As `up` starts it: the variables of its process."""
    environ = Path(f"/proc/{rig.server_pid()}/environ").read_bytes().decode().split("\0")
    assert [f"{name}={value}" for name, value in SERVER_ENV.items() if f"{name}={value}" not in environ] == []


def test_every_server_of_ours_keeps_them_as_long() -> None:
    compose = yaml.safe_load((REPO / "deployments/compose.yaml").read_text())["x-server"]
    unit = (REPO / "deployments/systemd/gpu-runbooks-server.service").read_text()
    assert {name: compose[name] for name in SERVER_ENV} == SERVER_ENV
    assert [f"{name}={value}" in unit for name, value in SERVER_ENV.items()] == [True, True]
    said = Path(REPO / "deployments/README.md").read_text()
    assert f"{KEPT.days} days" in said
    assert timedelta(seconds=LONGEST_WINDOW_S) + timedelta(days=7) < KEPT
