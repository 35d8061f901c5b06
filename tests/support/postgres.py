"""A real PostgreSQL on a free loopback port for tests: started as its own user, stopped by its own tool."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from deployments.ports import free_port

SCHEMA = (
    "CREATE TABLE workers (id text PRIMARY KEY, status text NOT NULL, created_at timestamptz, last_heartbeat timestamptz, "
    "updated_at timestamptz, runpod_id text)",
    "CREATE TABLE tasks (id text PRIMARY KEY, status text NOT NULL, worker_id text, generation_started_at timestamptz)",
    "CREATE ROLE reader LOGIN",
    "GRANT SELECT ON workers, tasks TO reader",
)


def binaries() -> Path:
    """Folder of initdb and pg_ctl. Fails with what to install."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "PostgreSQL is missing. As root: apt-get install -y --no-install-recommends postgresql"
    return found[-1].parent


async def _on(url: str, sql: str, values: tuple[Any, ...] | None) -> list[Any]:
    import asyncpg

    c = await asyncpg.connect(url)
    try:
        if values is None:
            await c.execute(sql)
            return []
        return list(await c.fetch(sql, *values))
    finally:
        await c.close()


def run_sql(url: str, sql: str, *values: Any) -> list[Any]:
    """Rows of one statement."""
    return asyncio.run(_on(url, sql, values))


def run_script(url: str, sql: str) -> None:
    """Many statements."""
    asyncio.run(_on(url, sql, None))


class Postgres:
    """One server with one database."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-runbooks-pg-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        self.url = f"postgresql://app@127.0.0.1:{self.port}/postgres"
        self.reader_url = f"postgresql://reader@127.0.0.1:{self.port}/postgres"

    def start(self) -> "Postgres":
        """Start and fill it."""
        bin_ = binaries()
        data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run(
            str(bin_ / "initdb"), "-D", str(data), "-U", "app", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"
        )
        self.start_again()
        for line in SCHEMA:
            self.do(line)
        return self

    def start_again(self) -> None:
        """Start on the data that is there, also after it was killed."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        where = ("-D", str(self.folder / "data"), "-l", str(self.folder / "log"))
        self._run(str(binaries() / "pg_ctl"), *where, "-w", "-t", "30", "-o", options, "start")

    @property
    def pid(self) -> int:
        """Of the process that all others of it are children of."""
        return int((self.folder / "data/postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """Stop and remove it."""
        self._run(str(binaries() / "pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def do(self, sql: str, *values: Any) -> list[Any]:
        """One statement."""
        return run_sql(self.url, sql, *values)

    def database(self, name: str) -> str:
        """The address of another, empty database on this server; one of that name is dropped first."""
        self.do(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.do(f"CREATE DATABASE {name} TEMPLATE template0")
        return f"{self.url.rpartition('/')[0]}/{name}"

    def _run(self, *argv: str) -> None:
        as_user = (
            ("setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups") if os.geteuid() == 0 else ()
        )
        subprocess.run([*as_user, *argv], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd="/")
