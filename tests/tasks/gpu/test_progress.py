"""Signs of progress from real files and a real SQLite writer; and that reading disturbs nobody."""

import os
import sqlite3
import time
from pathlib import Path

import pytest

from runbooks.core.fleet import Job, Progress, ProgressKind
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.gpu.evidence import ProgressMark
from tasks.gpu.progress import Marks, compare_progress, read_progress
from tests.support.gpu_node import context, job, running
from tests.tasks.gpu.test_processes import as_nobody


def sign(kind: str, path: Path | str, table: str | None = None) -> Job:
    """A job with one sign of progress."""
    return job("p", progress=(Progress(kind=ProgressKind(kind), path=str(path), table=table),))


def twice(one: Job, wait_s: float = 0.4, runs: bool = True) -> Marks:
    """Two looks."""
    ctx = context()
    before = read_progress(ctx, (one,))
    time.sleep(wait_s)
    after = read_progress(ctx, (one,))
    return compare_progress(ctx, (one,), before, after, frozenset({one.name} if runs else ()))


def mark(found: Marks) -> ProgressMark:
    """The one mark."""
    assert isinstance(found, Known), found
    (one,) = found.value
    return one


def test_rows_of_a_database_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "games.db"
    with running("rows", str(path)):
        time.sleep(0.5)
        found = mark(twice(sign("sqlite", path, "games")))
    assert found.after > found.before > 0
    assert found.unit == "rows"
    assert found.changed_s_ago is not None
    assert found.changed_s_ago < 2


def test_reading_never_blocks_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    db = sqlite3.connect(path, isolation_level=None, timeout=0)
    db.execute("CREATE TABLE games (id INTEGER PRIMARY KEY)")
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO games DEFAULT VALUES")
    found = mark(twice(sign("sqlite", path, "games"), 0))  # while a write is open
    assert (found.before, found.after) == (0, 0)
    db.execute("COMMIT")
    db.execute("INSERT INTO games DEFAULT VALUES")  # timeout=0: a reader's lock would raise here
    assert mark(twice(sign("sqlite", path, "games"), 0)).after == 2


def test_reading_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "quiet.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE games (id INTEGER PRIMARY KEY)")
    db.commit()
    db.close()
    before = sorted(tmp_path.iterdir()), path.stat().st_mtime_ns
    assert mark(twice(sign("sqlite", path, "games"), 0)).after == 0
    assert (sorted(tmp_path.iterdir()), path.stat().st_mtime_ns) == before


def test_an_exclusive_lock_is_unknown_not_zero(tmp_path: Path) -> None:
    path = tmp_path / "locked.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE games (id INTEGER PRIMARY KEY)")
    db.execute("BEGIN EXCLUSIVE")
    found = twice(sign("sqlite", path, "games"), 0)
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.FAILED
    assert "locked" in found.detail


@pytest.mark.parametrize("table", ["nope", 'games"; DROP TABLE games; --'])
def test_a_table_that_is_not_there_is_unknown(tmp_path: Path, table: str) -> None:
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE games (id INTEGER PRIMARY KEY)")
    db.commit()
    found = twice(sign("sqlite", path, table), 0)
    assert isinstance(found, Unknown)
    assert "no such table" in found.detail
    assert db.execute("SELECT count(*) FROM games").fetchone() == (0,)


def test_files_grow_and_logs_grow(tmp_path: Path) -> None:
    for kind in ("files", "log"):
        path = tmp_path / f"{kind}.bin"
        with running("checkpoint", str(path)):
            found = mark(twice(sign(kind, tmp_path / f"{kind}.*")))
        assert found.after > found.before
        assert found.unit == "bytes"


def test_a_file_that_is_replaced_by_one_of_its_size_shows_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    path.write_bytes(b"a" * 100)
    os.utime(path, (1, 1))
    old = mark(twice(sign("files", path), 0))
    path.write_bytes(b"b" * 100)
    new = mark(twice(sign("files", path), 0))
    assert old.changed_s_ago is not None
    assert new.changed_s_ago is not None
    assert old.changed_s_ago > 1e8
    assert new.changed_s_ago < 5
    assert new.before == new.after == 100


def test_a_path_without_files_is_doubtful_only_while_the_job_runs(tmp_path: Path) -> None:
    idle = twice(sign("files", tmp_path / "none*"), 0, runs=False)
    assert isinstance(idle, Known)
    assert idle.value == ()
    found = twice(sign("files", tmp_path / "none*"), 0)
    assert isinstance(found, Unknown)
    assert "is the path right" in found.detail


def test_denied_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, one = as_nobody(context(), monkeypatch), sign("files", "/root/*")
    look = read_progress(ctx, (one,))
    found = compare_progress(ctx, (one,), look, look, frozenset())
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.DENIED


def test_nothing_configured_is_absent() -> None:
    ctx = context()
    look = read_progress(ctx, (job("x"),))
    assert isinstance(compare_progress(ctx, (job("x"),), look, look, frozenset()), Absent)
