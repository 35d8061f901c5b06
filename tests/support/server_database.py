"""The database of a test's Prefect server, read without asking the server."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def rows_of(home: Path) -> Iterator[str]:
    """Every row of it, as text."""
    with database_of(home) as db:
        yield from (row for row in db.iterdump() if not row.startswith(MANUALS))
