"""The database of a test's Prefect server, read without asking the server."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import binaries

MANUALS = ('INSERT INTO "block_type"', 'INSERT INTO "block_schema"')
"""Prefect's own manuals of blocks, which show made-up passwords."""


@contextmanager
def database_of(home: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """The database of the server whose state lies below `home`."""
    (file,) = (home / "state").rglob("*.db")
    db = sqlite3.connect(f"file:{file}?mode={mode}", uri=True, timeout=30)
    try:
        yield db
    finally:
        db.close()


def postgres_url() -> str:
    """Where the server's records are on PostgreSQL; "" if they are in a file below its home."""
    return os.environ.get("PREFECT_API_DATABASE_CONNECTION_URL", "").replace("+asyncpg", "")


def rows_of(home: Path) -> Iterator[str]:
    """Every row of it, as text."""
    if url := postgres_url():
        manuals = (f"--exclude-table={m.split(chr(34))[1]}" for m in MANUALS)
        argv = [str(binaries() / "pg_dump"), "--data-only", "--inserts", *manuals, url]
        yield from subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        return
    with database_of(home) as db:
        yield from (row for row in db.iterdump() if not row.startswith(MANUALS))
