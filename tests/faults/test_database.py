"""A real PostgreSQL under the Prefect server is killed while a run is at work, and comes back: one action, every run ends."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from deployments.old_records import retire
from flows import store
from tests.faults.fault import struck
from tests.faults.test_faults import carry_on, check, runs_on
from tests.support.engine_rig import Rig
from tests.support.old_records import old_deployments, races
from tests.support.postgres import Postgres
from tests.support.toy import acts_done
from tests.support.waiting import until

AWAY_S = 3.0
KEPT = ("GPU_RUNBOOKS_HOME", "TOY_WORLDS", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_HOME")
URL = "PREFECT_API_DATABASE_CONNECTION_URL"


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    made = Postgres().start()
    made.do("CREATE DATABASE prefect")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def on_postgres(own_server: None, database: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A rig of this file's own, whose server keeps its records there."""
    before = {name: os.environ.get(name) for name in (*KEPT, URL)}
    os.environ[URL] = f"postgresql+asyncpg://app@127.0.0.1:{database.port}/prefect"
    made = Rig(tmp_path_factory.mktemp("rig-on-postgres"))
    with made.settings():
        made.begin()
        assert database_has_runs(database) == 0
        yield made
        made.close()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def database_has_runs(database: Postgres) -> int:
    """Straight from PostgreSQL: the test is not about SQLite."""
    import asyncio

    import asyncpg

    async def count() -> int:
        c = await asyncpg.connect(database.url.replace("/postgres", "/prefect"))
        try:
            return int(await c.fetchval("SELECT count(*) FROM flow_run"))
        finally:
            await c.close()

    return asyncio.run(count())


@pytest.mark.parametrize(
    "point",
    [
        "step-begins",
        "step-begun",
        "step-done",
        *(pytest.param(p, marks=pytest.mark.soak) for p in ("gathered", "claimed", "budgeted", "verified")),
    ],
)
def test_postgres_is_killed_and_comes_back(on_postgres: Rig, database: Postgres, point: str) -> None:
    """KILL of all of it, away for some seconds, and started again by its supervisor."""
    rig = on_postgres
    w = rig.world()
    killed = database.pid
    w.arm(point, "SIGKILL", pid=killed, whose="PostgreSQL")

    def supervise() -> None:
        until(lambda: struck(w.fault), 60)
        time.sleep(AWAY_S)
        database.start_again()

    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    pid, id_file = w.start_run("auto")
    rig.wait(pid)
    supervisor.join(60)
    assert struck(w.fault)
    assert database.pid != killed
    carry_on(w)
    check(w, 1)
    assert len(acts_done(rig.worlds, w.name)) == 1
    assert runs_on(w)
    assert all(r.state and r.state.is_final() for r in runs_on(w)), [(r.name, r.state_name) for r in runs_on(w)]
    assert store.read_run(id_file.read_text()).labels["outcome"] == "fixed", "it waited until the database was back"
    assert database_has_runs(database) >= len(runs_on(w))


def test_racers_are_given_one_and_the_same_record(on_postgres: Rig) -> None:
    assert races(("new", "new"), 50).total() == 50
    old_deployments()
    assert races(("old", "new"), 50).total() == 50
    assert retire() == ()  # what is open here is of this form
