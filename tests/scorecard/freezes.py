"""When everything was frozen, as the server's own database saw it: whoever set the switch, and in whatever process."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from flows.engine.guards import FREEZE
from tests.support.server_database import database_of, postgres_url

TRIGGERS = """
CREATE TABLE IF NOT EXISTS audit_freeze (begin TEXT, until TEXT);
CREATE TRIGGER IF NOT EXISTS audit_frozen AFTER INSERT ON variable WHEN NEW.name = 'SWITCH'
BEGIN INSERT INTO audit_freeze VALUES (strftime('%Y-%m-%dT%H:%M:%f', 'now'), NULL); END;
CREATE TRIGGER IF NOT EXISTS audit_let_go AFTER DELETE ON variable WHEN OLD.name = 'SWITCH'
BEGIN UPDATE audit_freeze SET until = strftime('%Y-%m-%dT%H:%M:%f', 'now') WHERE until IS NULL; END;
""".replace("SWITCH", FREEZE)


class Freeze(NamedTuple):
    """From the row of the switch to its deletion; `until` None: it stands."""

    begin: datetime
    until: datetime | None


def watch_freezes(home: Path) -> None:
    """From now on the database notes each freeze beside its own rows. None is noted on PostgreSQL, where no test freezes."""
    if postgres_url():
        return
    with database_of(home, "rw") as db:
        db.executescript(TRIGGERS)


def read_freezes(home: Path) -> tuple[Freeze, ...]:
    """Every freeze since it was watched, oldest first."""
    if postgres_url():
        return ()
    with database_of(home) as db:
        rows = db.execute("SELECT begin, until FROM audit_freeze ORDER BY begin").fetchall()
    return tuple(Freeze(_at(begin), _at(until) if until else None) for begin, until in rows)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
