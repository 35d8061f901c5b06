"""One real PostgreSQL, in it the orchestrator's database of 2026 and that of 2025, each behind the stand-in of the platform."""

from collections.abc import Iterator

import pytest

from tests.support.orchestrator_tables import Age, orchestrator_database
from tests.support.postgres import Postgres, run_sql
from tests.support.postgrest import PostgRest

TABLES = "system_logs, tasks, workers, task_types, projects, users"


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """The server."""
    made = Postgres().start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def new_url(server: Postgres) -> str:
    """Database of 2026."""
    return orchestrator_database(server, Age.NEW)


@pytest.fixture(scope="session")
def old_url(server: Postgres) -> str:
    """Database of 2025."""
    return orchestrator_database(server, Age.OLD)


@pytest.fixture
def there(new_url: str) -> Iterator[PostgRest]:
    """The project of 2026; each test begins with empty tables."""
    run_sql(new_url, f"TRUNCATE {TABLES}")
    with PostgRest(new_url) as made:
        yield made


@pytest.fixture
def then(old_url: str) -> Iterator[PostgRest]:
    """The project of 2025."""
    run_sql(old_url, f"TRUNCATE {TABLES}")
    with PostgRest(old_url, age=Age.OLD) as made:
        yield made
