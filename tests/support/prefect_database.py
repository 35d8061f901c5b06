"""A database as Prefect makes it, made once for a version of Prefect: a server that finds it starts with half of the work.

Migrating an empty database takes 5 s of processor time, and nearly every file of tests starts a server of its own.
"""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from deployments.ports import free_port
from tests.support.waiting import until

REPO = Path(__file__).resolve().parents[2]
MADE = REPO / ".pytest_cache" / f"prefect-{version('prefect')}.db"


def give_database(home: Path) -> None:
    """Before the first server of that state folder starts."""
    MADE.parent.mkdir(exist_ok=True)
    with MADE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not MADE.exists():
            _make()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "prefect").mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(MADE, home / "prefect" / "prefect.db")


def _make() -> None:
    """By a server of Prefect's, whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | {
            "PREFECT_HOME": folder, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1",
        }  # fmt: skip
        argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as server:
            try:
                until(lambda: _healthy(port), 120, "Prefect's server")
            finally:
                os.killpg(server.pid, signal.SIGTERM)
        whole = MADE.with_suffix(".part")
        with closing(sqlite3.connect(Path(folder, "prefect.db"))) as made, closing(sqlite3.connect(whole)) as kept:
            made.backup(kept)
        whole.rename(MADE)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
