"""Incidents of the real orchestrator and defects that it still has, with the pods of that day: what fleet-sync says, and leaves alone."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from runbooks.core.verdict import State
from tests.support import orchestrator_incidents as incidents
from tests.support.postgrest import PostgRest
from tests.tasks.orchestrator.fleet_world import FleetWorld
from tests.tasks.orchestrator.test_fleet_sync import causes


@pytest.fixture(params=["sql", "rest"])
def world(there: PostgRest, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetWorld]:
    made = FleetWorld(there, request.param)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    yield made
    made.runpod.close()


def kinds(world: FleetWorld) -> tuple[State, list[str], list[str]]:
    d = world.look()[1]
    return d.state, causes(d), [s.kind for p in d.plans for s in p.steps]


def test_a_guardian_brought_the_row_back(world: FleetWorld) -> None:
    """The row alone says active, and a script that marks and ends by it ends a worker that reports."""
    incidents.row_came_back(world.url, datetime.now(UTC))
    world.pod("pod-gpu-1", "gpu-1")
    assert kinds(world) == (State.UNHEALTHY, ["resurrected-row confirmed pod pod-gpu-1 of worker gpu-1"], [])


def test_a_worker_beyond_the_cut(world: FleetWorld) -> None:
    """1,200 newer rows: the worker that lives was unknown to the list, and its pod was taken for an orphan."""
    incidents.beyond_the_cut(world.url, datetime.now(UTC))
    world.pod("pod-gpu-old", "gpu-old", age_s=30 * 86400)
    assert kinds(world) == (State.HEALTHY, [], [])


def test_rows_that_are_born_alive_and_lost_their_pods(world: FleetWorld) -> None:
    """Fresh rows without pod id, their pods a minute old: both wait."""
    incidents.born_alive(world.url, datetime.now(UTC))
    for n in (1, 2):
        world.pod(f"young{n}", f"gpu-{n}", age_s=60)
    assert kinds(world) == (State.HEALTHY, [], [])
    world.do("UPDATE workers SET created_at = created_at - interval '1 hour', last_heartbeat = created_at - interval '1 hour'")
    for n in (1, 2):
        world.pod(f"young{n}", f"gpu-{n}", age_s=3500)
    state, found, acts = kinds(world)
    assert (state, acts) == (State.UNHEALTHY, ["recover-pod-id", "recover-pod-id"]), found


def test_one_volume_killed_all(world: FleetWorld) -> None:
    """124 rows in error whose pods are gone: nothing costs, so nothing is to be done here."""
    incidents.one_volume_kills_all(world.url, datetime.now(UTC))
    world.pod("pod-gpu-fine", "gpu-fine")
    assert kinds(world) == (State.HEALTHY, [], [])


def test_terminated_was_written_and_the_call_failed(world: FleetWorld) -> None:
    """The shutdown script's own defect: the table is clean, and the pod bills."""
    world.row("gpu-shut", "terminated", beat_s=4000, terminated_by="shutdown_script", terminated_at="2026-05-01T00:00:00Z")
    world.pod("pod-gpu-shut", "gpu-shut")
    found = ["ended-row-pod-bills confirmed pod pod-gpu-shut of worker gpu-shut"]
    assert kinds(world) == (State.UNHEALTHY, found, ["terminate-pod"])


def test_a_crash_between_the_insert_and_the_update(world: FleetWorld) -> None:
    """The row stays inactive without a pod id, and the pod is never reaped."""
    world.row("gpu-half", "inactive", beat_s=None, runpod_id=None)
    world.pod("half1", "gpu-half")
    assert kinds(world) == (State.UNHEALTHY, ["ended-row-pod-bills confirmed pod half1 of worker gpu-half"], ["terminate-pod"])


GONE: dict[str, Callable[[FleetWorld], object]] = {
    "the list of workers fails": lambda w: w.do("ALTER TABLE workers RENAME TO workers_away"),
    "the list of workers is empty": lambda w: w.do("DELETE FROM workers"),
}


@pytest.mark.parametrize("how", GONE)
def test_one_failed_read_is_not_an_empty_list(world: FleetWorld, how: str) -> None:
    """It started 29 pods at MAX=1 and ended one that lived."""
    for n in range(5):
        world.both(f"gpu-live-{n}")
    GONE[how](world)
    try:
        state, found, acts = kinds(world)
    finally:
        world.do("ALTER TABLE IF EXISTS workers_away RENAME TO workers")
    assert (state, found, acts) == (State.CANNOT_TELL, [], [])
    assert world.runpod.count("DELETE") == 0


def test_another_database_owns_no_pod_of_ours(world: FleetWorld) -> None:
    """The table of a copy: rows are there, and none of them is of these pods."""
    for n in range(5):
        world.pod(f"pod-{n}", f"gpu-live-{n}")
    state, found, acts = kinds(world)
    assert (state, acts, found[0]) == (State.UNHEALTHY, [], "sides-do-not-fit likely both sides")
