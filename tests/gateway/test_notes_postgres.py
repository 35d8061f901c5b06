"""On a real PostgreSQL: what gateways write about a run is never lost between two writers, as labels may be."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Completed

from deployments.register import register_all
from flows import store
from flows.alert_notes import resolved
from flows.alerts import AlertOutcome, AlertStart, place, resolve
from tests.support.compose import SECRETS, Compose
from tests.support.set_state import set_state
from tests.support.soak import record

ROUNDS = 200


@pytest.fixture
def on_postgres(own_server: None, tmp_path: Path) -> Iterator[None]:
    """Prefect's API on PostgreSQL and Redis; this process asks it."""
    tmp_path.chmod(0o755)
    compose = Compose(tmp_path, {"name": "large", "nodes": [{"name": "n0", "local": True}]})
    compose.do("migrate")
    compose.start("server")
    api = f"http://127.0.0.1:{compose.server_port}/api"
    deadline = time.monotonic() + 120
    while True:
        try:
            httpx.get(f"{api}/health").raise_for_status()
            break
        except httpx.HTTPError:
            assert time.monotonic() < deadline, compose.log()
            time.sleep(0.3)
    with temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: SECRETS["PREFECT_AUTH"]}):
        register_all()
        yield
    compose.close()


def alert(target: str, name: str, at: datetime) -> AlertStart:
    return AlertStart(
        runbook="zombie-gpu", target=target, fleet=None, parameters={"target": target}, key=name, mark=f"m{name}", alert="A", at=at
    )


class Racers(ThreadPoolExecutor):
    """Threads that ask the server which the test asks."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(copy_context().run, fn, *args, **kwargs)


def labelled(run: str, name: str) -> None:
    """A label as a process without our lock writes it."""
    store.ask(lambda c: c.update_flow_run_labels(UUID(run), {name: "x"}))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_no_note_is_lost_between_two_writers(on_postgres: None) -> None:
    lost, wrong = 0, []
    with Racers(6) as pool:
        for i in range(ROUNDS):
            at = datetime.now(UTC)
            first = place(alert(f"r{i}", "one", at))
            assert first.done is AlertOutcome.STARTED
            run = first.run
            joins = [pool.submit(place, alert(f"r{i}", f"k{n}", at)) for n in range(2)]
            beats = [pool.submit(store.label, run, {f"beat{n}": "x"}) for n in range(2)]
            beats += [pool.submit(labelled, run, f"other{n}") for n in range(2)]
            assert [j.result().done for j in joins] == [AlertOutcome.JOINED] * 2
            ends = [pool.submit(resolve, alert(f"r{i}", k, at + timedelta(seconds=1))) for k in ("one", "k0", "k1")]
            beats += [pool.submit(labelled, run, f"late{n}") for n in range(3)]
            outcomes = {e.result().done for e in ends}
            for b in beats:
                b.result()
            found = store.read_run(run)
            lost += 7 - len([x for x in found.labels if x.startswith(("beat", "other", "late"))])
            if not (resolved(found) and outcomes == {AlertOutcome.RESOLVED}):
                wrong.append((i, outcomes))
            set_state(run, Completed(message="over"))
    assert wrong == []
    record("notes_on_postgresql", {"rounds": ROUNDS, "notes_lost": len(wrong), "labels_lost_by_two_processes": lost})
