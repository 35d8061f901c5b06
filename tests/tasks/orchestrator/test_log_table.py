"""The table of log lines on a real PostgreSQL, by SQL and by REST: page by page, cut, refused, and followed without loss or repeat."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runbooks.core.logs_config import LogTable
from runbooks.core.orchestrator_config import DatabaseConfig
from runbooks.core.redact import Redactor
from runbooks.parsers.logs.event import ReadState
from tasks.clients.logs import table as log_table
from tasks.clients.logs.source import LogWindow, read_source
from tasks.clients.logs.table import LogPages, TableLog, table_pages
from tests.support.postgres import run_sql
from tests.support.postgrest import PostgRest, token

AT = datetime(2026, 3, 2, 3, 10, tzinfo=UTC)
REDACTOR = Redactor(b"k" * 32)
INSERT = (
    "INSERT INTO system_logs (timestamp, source_type, source_id, log_level, message, worker_id, cycle_number) "
    "SELECT x.at, 'orchestrator_gpu', 'main', x.level, x.message, x.worker, x.cycle "
    "FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::integer[]) AS x (at, level, message, worker, cycle)"
)


def say(url: str, *rows: tuple[datetime, str], level: str = "INFO", cycle: int | None = None) -> None:
    """Rows of (time, message)."""
    times, messages = zip(*rows, strict=True)
    count = len(rows)
    run_sql(url, INSERT, list(times), [level] * count, list(messages), [None] * count, [cycle] * count)


@pytest.fixture(params=["sql", "rest"])
def pages(request: pytest.FixtureRequest, there: PostgRest, new_url: str, monkeypatch: pytest.MonkeyPatch) -> LogPages:
    """Each way to ask."""
    for name in ("DATABASE_URL", "SUPABASE_URL", "SUPABASE_SERVICE_ROLE_KEY"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "sql":
        monkeypatch.setenv("DATABASE_URL", new_url)
    else:
        monkeypatch.setenv("SUPABASE_URL", there.url)
        monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", token("service_role"))
    return table_pages(DatabaseConfig(), LogTable(), REDACTOR)


def messages(events: list[Any]) -> list[str]:
    """In their order."""
    return [e.message for e in events]


def test_rows_become_events(pages: LogPages, new_url: str) -> None:
    say(new_url, (AT, "SCALING BLOCKED: failure rate"), level="WARNING", cycle=7)
    say(new_url, (AT + timedelta(seconds=1), "Cycle completed: {'workers_promoted': 2}"), cycle=7)
    events, read = TableLog(LogTable(), pages).read(LogWindow())
    assert [(e.at, e.severity, e.logger, e.cycle, e.kind) for e in events] == [
        (AT, "WARNING", "main", 7, "decision"), (AT + timedelta(seconds=1), "INFO", "main", 7, "summary")]  # fmt: skip
    assert {e.turn for e in events} == {0}
    assert (read.state, read.lines, read.first, read.notes) == (ReadState.WHOLE, 2, AT, ())


def test_every_page_is_read_and_rows_of_one_time_are_not_lost(pages: LogPages, new_url: str) -> None:
    say(new_url, *((AT, f"m{n:04}") for n in range(2500)))
    events, read = TableLog(LogTable(), pages).read(LogWindow())
    assert messages(events) == [f"m{n:04}" for n in range(2500)]
    assert read.state is ReadState.WHOLE
    events, read = TableLog(LogTable(), pages, most=2000).read(LogWindow())
    assert (read.state, messages(events)[0], len(events)) == (ReadState.CUT, "m0500", 2000)


def test_a_window(pages: LogPages, new_url: str) -> None:
    say(new_url, *((AT + timedelta(minutes=n), f"m{n}") for n in range(5)))
    window = LogWindow(AT + timedelta(minutes=1), AT + timedelta(minutes=3))
    assert messages(TableLog(LogTable(), pages).read(window)[0]) == ["m1", "m2", "m3"]


def test_an_empty_table_does_not_mean_that_the_orchestrator_is_dead(pages: LogPages) -> None:
    events, read = TableLog(LogTable(), pages).read(LogWindow())
    assert (events, read.state) == ([], ReadState.WHOLE)
    assert "alive" in read.notes[0]


def test_following_neither_loses_nor_repeats(pages: LogPages, new_url: str) -> None:
    """Rows that come late, of a clock that is behind, of one that is ahead, and many of one time."""
    now = datetime.now(UTC)
    say(new_url, (now - timedelta(seconds=5), "a"), (now - timedelta(seconds=1), "b"))
    log = TableLog(LogTable(), pages)
    assert messages(log.read(LogWindow())[0]) == ["a", "b"]
    assert log.poll() == ([], ())
    say(new_url, (now - timedelta(seconds=3), "late"))
    say(new_url, (now - timedelta(hours=2), "of a clock that is behind"))
    say(new_url, (now + timedelta(hours=2), "of a clock that is ahead"))
    assert messages(log.poll()[0]) == ["of a clock that is behind", "late", "of a clock that is ahead"]
    say(new_url, *((datetime.now(UTC), f"m{n:04}") for n in range(1500)))
    assert sorted(messages(log.poll()[0])) == [f"m{n:04}" for n in range(1500)]
    assert log.poll() == ([], ())


def test_a_table_that_is_not_there_or_not_allowed(pages: LogPages, new_url: str) -> None:
    gone = table_pages(DatabaseConfig(), LogTable(table="no_such_table"), REDACTOR)
    _, read = read_source(TableLog(LogTable(table="no_such_table"), gone), LogWindow())
    assert read.state is ReadState.NOT_READ
    assert "no_such_table" in read.why
    wrong = table_pages(DatabaseConfig(), LogTable(severity="levelname"), REDACTOR)
    assert read_source(TableLog(LogTable(severity="levelname"), wrong), LogWindow())[1].state is ReadState.NOT_READ


def test_a_read_that_fails_at_the_second_page_is_no_short_log(pages: LogPages, new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_table, "PAGE", 2)
    say(new_url, *((AT + timedelta(seconds=n), f"m{n}") for n in range(5)))
    whole, asked = pages.page, []

    def second_fails(*args: Any) -> list[dict[str, Any]]:
        asked.append(args)
        if len(asked) == 2:
            raise ValueError("a torn answer")
        return whole(*args)

    monkeypatch.setattr(pages, "page", second_fails)
    with pytest.raises(ValueError, match="torn"):
        TableLog(LogTable(), pages).read(LogWindow())
    events, read = TableLog(LogTable(), pages).read(LogWindow())
    assert (len(events), read.state) == (5, ReadState.WHOLE)


def test_one_empty_answer_is_no_end(pages: LogPages, new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say(new_url, *((AT + timedelta(seconds=n), f"m{n:04}") for n in range(1200)))
    whole, asked = pages.page, []

    def second_is_empty(*args: Any) -> list[dict[str, Any]]:
        asked.append(args)
        return [] if len(asked) == 2 else whole(*args)

    monkeypatch.setattr(pages, "page", second_is_empty)
    events, _ = TableLog(LogTable(), pages).read(LogWindow())
    assert len(events) == 1200
