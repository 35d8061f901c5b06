"""fleet-sync on a fake provider and a real PostgreSQL: what it finds, that no spoiled list decides, and its acts under a racer."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from runbooks.core.plan import Step
from runbooks.core.verdict import Diagnosis, State
from runbooks.parsers.runpod import Pod
from tasks.clients.runpod import RunPodClient
from tasks.clients.worker_db import SqlDb
from tasks.clients.worker_rest import RestDb
from tasks.context import ActionRefused
from tasks.orchestrator.act_rows import recover_pod_id
from tasks.spawning.act_pods import terminate_pod
from tasks.spawning.act_rows import mark_worker_row
from tests.support.bad_answers import Bad
from tests.support.need import need_program
from tests.support.postgrest import PostgRest
from tests.support.printed import by_hand
from tests.support.racing import meanwhile
from tests.tasks.orchestrator.fleet_world import FleetWorld

ROWS = "/rest/v1/workers"
BEATS = "UPDATE workers SET last_heartbeat = now() WHERE id = $1"


@pytest.fixture(params=["sql", "rest"])
def either(there: PostgRest, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetWorld]:
    """A fleet whose rows are read by SQL, and one by REST."""
    yield from made(there, request.param, monkeypatch)


@pytest.fixture
def world(there: PostgRest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetWorld]:
    """One whose rows are read by REST, which can be spoiled."""
    yield from made(there, "rest", monkeypatch)


@pytest.fixture
def by_sql(there: PostgRest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetWorld]:
    """One whose rows are read by SQL."""
    yield from made(there, "sql", monkeypatch)


def made(there: PostgRest, way: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetWorld]:
    world = FleetWorld(there, way)
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    yield world
    world.runpod.close()


def causes(d: Diagnosis) -> list[str]:
    return [f"{c.slug} {c.certainty} {c.subject}" for c in d.causes]


def step_of(d: Diagnosis, kind: str) -> Step:
    (found,) = [s for p in d.plans for s in p.steps if s.kind == kind]
    return found


def test_a_fleet_that_fits(either: FleetWorld) -> None:
    either.pod("strange1", "jupyter")
    _, d = either.look()
    assert (d.state, d.plans) == (State.HEALTHY, ())
    assert "not this orchestrator's and were left alone: pod strange1" in " | ".join(d.do_now)


def test_both_ways(either: FleetWorld) -> None:
    either.both("gpu-w1")
    either.pod("lonely1", "gpu-lonely")
    either.row("gpu-gone", beat_s=5000)
    either.row("gpu-crash", "crashed", beat_s=5000)
    either.pod("pod-gpu-crash", "gpu-crash", desired="EXITED")
    _, d = either.look()
    assert causes(d) == [
        "orphan-pod confirmed pod lonely1",
        "exited-pod-costs confirmed pod pod-gpu-crash of worker gpu-crash",
        "stale-row confirmed worker gpu-gone",
    ], d.model_dump_json(indent=1)
    assert sorted(s.kind for p in d.plans for s in p.steps) == ["mark-worker-row", "terminate-pod", "terminate-pod"]


def test_a_pod_id_that_a_failed_read_took(either: FleetWorld) -> None:
    either.row("gpu-lost", runpod_id=None)
    either.pod("found1", "gpu-lost")
    _, d = either.look()
    assert causes(d) == ["lost-pod-id confirmed pod found1 of worker gpu-lost"]
    step = step_of(d, "recover-pod-id")
    either.do(BEATS, "gpu-lost")
    recover_pod_id(step, either.context())
    (row,) = either.do("SELECT metadata FROM workers WHERE id = 'gpu-lost'")
    assert json.loads(row["metadata"]) == {"runpod_id": "found1", "orchestrator_status": "active"}, "the other keys stay"
    assert either.look()[1].state is State.HEALTHY


@pytest.mark.parametrize("what", ["a second pod", "the pod is gone", "another row names it", "the row names one", "the row ended", "cut"])
def test_somebody_is_faster_than_the_recovery(either: FleetWorld, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    either.row("gpu-lost", runpod_id=None)
    either.pod("found1", "gpu-lost")
    step = step_of(either.look()[1], "recover-pod-id")
    named = "UPDATE workers SET metadata = metadata || '{\"runpod_id\": \"%s\"}' WHERE id = '%s'"
    none: tuple[Pod, ...] = ()
    before: dict[str, Callable[[], Any]] = {
        "a second pod": lambda: either.pod("found2", "gpu-lost"),
        "the pod is gone": lambda: either.runpod.pods.pop("found1"),
        "another row names it": lambda: either.do(named % ("found1", "gpu-w0")),
        "the row names one": lambda: either.do(named % ("mine1", "gpu-lost")),
        "the row ended": lambda: either.do("UPDATE workers SET status = 'terminated' WHERE id = 'gpu-lost'"),
        "cut": lambda: monkeypatch.setattr(RunPodClient, "every_pod", lambda _: none),
    }
    before[what]()
    then = either.do("SELECT * FROM workers ORDER BY id")
    with pytest.raises(ActionRefused):
        recover_pod_id(step, either.context())
    assert either.do("SELECT * FROM workers ORDER BY id") == then


@pytest.mark.parametrize("change", ["metadata = metadata || '{\"runpod_id\": \"mine1\"}'", "status = 'terminated'"])
def test_the_row_changes_between_the_last_look_and_the_recovery(either: FleetWorld, change: str) -> None:
    either.row("gpu-lost", runpod_id=None)
    either.pod("found1", "gpu-lost")
    step = step_of(either.look()[1], "recover-pod-id")
    owner = SqlDb if either.way == "sql" else RestDb
    other = partial(either.do, f"UPDATE workers SET {change} WHERE id = 'gpu-lost'")  # noqa: S608
    with meanwhile(owner, "all_workers", other), pytest.raises(ActionRefused, match="not as it was read"):
        recover_pod_id(step, either.context())
    (row,) = either.do("SELECT metadata ->> 'runpod_id' AS pod FROM workers WHERE id = 'gpu-lost'")
    assert row["pod"] != "found1"


def test_the_printed_recovery_names_the_pod_once(by_sql: FleetWorld) -> None:
    need_program("psql", "postgresql-client")
    by_sql.row("gpu-lost", runpod_id=None)
    by_sql.pod("found1", "gpu-lost")
    step = step_of(by_sql.look()[1], "recover-pod-id")
    assert by_hand([step]).stdout.strip() == "UPDATE 1"
    assert by_sql.look()[1].state is State.HEALTHY
    assert by_hand([step]).stdout.strip() == "UPDATE 0", "a row that names a pod keeps it"


def test_a_worker_older_than_the_newest_thousand_rows_is_seen(either: FleetWorld) -> None:
    """The incident: 2,300 ended rows are newer than the worker that is at work."""
    sql = (
        "INSERT INTO workers (id, instance_type, status, created_at, last_heartbeat, metadata) "
        "SELECT 'gpu-old-' || n, 'x', 'terminated', now(), now() - interval '1 day', '{}' FROM generate_series(1, 2300) n"
    )
    either.do(sql)
    evidence, d = either.look()
    assert len(evidence.rows_again.value) == 2301 if evidence.rows_again.kind == "known" else False
    assert (d.state, d.causes) == (State.HEALTHY, ())


SPOILED: dict[str, Callable[[FleetWorld], Any]] = {
    "rows: 500": lambda w: w.there.inject(ROWS, Bad(500, "boom")),
    "rows: 503 once": lambda w: w.there.inject(ROWS, Bad(503, "{}"), times=1),
    "rows: 401": lambda w: w.there.inject(ROWS, Bad(401, "{}")),
    "rows: empty": lambda w: w.there.inject(ROWS, Bad(keep=0)),
    "rows: null": lambda w: w.there.inject(ROWS, Bad(200, "null")),
    "rows: an object": lambda w: w.there.inject(ROWS, Bad(200, "{}")),
    "rows: cut in the middle": lambda w: w.there.inject(ROWS, Bad(cut_at=40)),
    "rows: deleted": lambda w: w.do("DELETE FROM workers"),
    "tasks: 500": lambda w: w.there.inject("/rest/v1/tasks", Bad(500, "boom")),
    "pods: 500": lambda w: w.runpod.fail.extend([500] * 50),
    "pods: 429 once": lambda w: w.runpod.fail.append(429),
    "pods: 401": lambda w: w.runpod.fail.extend([401] * 50),
    "pods: empty": lambda w: w.runpod.pods.clear(),
    "pods: the second list fails": lambda w: w.runpod.fail.extend([0, 500]),
    "pods: asked by id, 500": lambda w: w.runpod.fail.extend([0, 0, 500]),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_list_decides_nothing(world: FleetWorld, how: str) -> None:
    """The most expensive incident: one failed read was taken for an empty list. Each reading fails, is cut or emptied in turn."""
    world.pod("lonely1", "gpu-lonely")
    world.row("gpu-gone", beat_s=5000)
    _, well = world.look()
    assert len(well.plans) == 2
    SPOILED[how](world)
    _, d = world.look()
    assert d.state is not State.HEALTHY, d
    kinds = {s.kind for p in d.plans for s in p.steps}
    if how.startswith("tasks"):
        assert "terminate-pod" not in kinds
    elif "by id" in how:
        assert "mark-worker-row" not in kinds
    else:
        assert (d.state, kinds) == (State.CANNOT_TELL, set()), d.model_dump_json(indent=1)


@pytest.mark.parametrize("keep", [0, 1])
def test_a_list_of_pods_that_is_cut_alike_twice_marks_no_row(world: FleetWorld, monkeypatch: pytest.MonkeyPatch, keep: int) -> None:
    """The provider gives only the first pods, both times: asked for by its id, the pod is there."""
    world.both("gpu-w1")
    world.do("UPDATE workers SET last_heartbeat = now() - interval '1 hour'")
    whole = RunPodClient.every_pod
    monkeypatch.setattr(RunPodClient, "every_pod", lambda self: whole(self)[:keep])
    _, d = world.look()
    assert (d.state, d.plans) == (State.CANNOT_TELL, ()), d


def test_a_table_that_is_cut_alike_twice_ends_no_pod(by_sql: FleetWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    by_sql.both("gpu-w1")
    whole = SqlDb.all_workers
    monkeypatch.setattr(SqlDb, "all_workers", lambda self: whole(self)[:1])
    _, d = by_sql.look()
    assert (d.state, d.plans) == (State.CANNOT_TELL, ()), d
    assert "the list of rows is cut" in d.headline


def test_a_fleet_that_moves_is_looked_at_again(by_sql: FleetWorld) -> None:
    """A worker comes between the two looks: the next pair is alike."""
    with meanwhile(RunPodClient, "every_pod", partial(by_sql.both, "gpu-w1")):
        _, d = by_sql.look()
    assert d.state is State.HEALTHY, d


def takes_a_task(world: FleetWorld, worker: str) -> None:
    """It has a row by now, and holds a task."""
    world.row(worker)
    world.do("INSERT INTO task_types VALUES ('x') ON CONFLICT DO NOTHING")
    world.do("INSERT INTO tasks (task_type, status, worker_id) VALUES ('x', 'In Progress', $1)", worker)


def orphan(world: FleetWorld) -> Step:
    world.pod("lonely1", "gpu-lonely")
    return step_of(world.look()[1], "terminate-pod")


RACERS: dict[str, tuple[Callable[[FleetWorld], Any], str]] = {
    "its row is written": (lambda w: w.row("gpu-lonely", "spawning", runpod_id="lonely1", beat_s=None), "are not as they were judged"),
    "a row of its name comes": (lambda w: w.row("gpu-lonely", "spawning", runpod_id=None, beat_s=None), "are not as they were judged"),
    "another row names it": (lambda w: w.do("UPDATE workers SET metadata = '{\"runpod_id\": \"lonely1\"}'"), "are not as they were judged"),
    "its worker takes a task": (lambda w: takes_a_task(w, "gpu-lonely"), "holds .*, which was not shown"),
    "the table is emptied": (lambda w: w.do("DELETE FROM workers"), "is empty now"),
    "it is renamed": (lambda w: setattr(w.runpod.pods["lonely1"], "name", "mine"), "named 'mine'"),
    "it is locked": (lambda w: setattr(w.runpod.pods["lonely1"], "locked", True), "locked"),
    "it is stopped": (lambda w: setattr(w.runpod.pods["lonely1"], "desired", "EXITED"), "is now EXITED"),
}  # fmt: skip


@pytest.mark.parametrize("what", RACERS)
def test_somebody_is_faster_than_the_end_of_an_orphan(either: FleetWorld, what: str) -> None:
    step = orphan(either)
    change, words = RACERS[what]
    with meanwhile(RunPodClient, "pod", partial(change, either)), pytest.raises(ActionRefused, match=words):
        terminate_pod(step, either.context())
    assert either.runpod.count("DELETE") == 0


def test_a_worker_that_reports_after_the_look_keeps_its_pod(either: FleetWorld) -> None:
    either.row("gpu-err", "terminated", beat_s=5000)
    either.pod("pod-gpu-err", "gpu-err")
    step = step_of(either.look()[1], "terminate-pod")
    with meanwhile(RunPodClient, "pod", partial(either.do, BEATS, "gpu-err")), pytest.raises(ActionRefused, match="reports"):
        terminate_pod(step, either.context())
    either.do("UPDATE workers SET last_heartbeat = now() - interval '2 hours', status = 'active' WHERE id = 'gpu-err'")
    with pytest.raises(ActionRefused, match="not as they were judged"):
        terminate_pod(step, either.context())
    assert either.runpod.count("DELETE") == 0


def test_an_orphan_is_ended_alone(either: FleetWorld) -> None:
    step = orphan(either)
    terminate_pod(step, either.context())
    assert list(either.runpod.pods) == ["pod-gpu-w0"]
    assert either.look()[1].state is State.HEALTHY


@pytest.mark.parametrize("what", ["pod comes back", "pod of its name", "beats", "active again", "list empty", "provider fails"])
def test_somebody_is_faster_than_the_mark(either: FleetWorld, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    either.row("gpu-gone", beat_s=5000)
    step = step_of(either.look()[1], "mark-worker-row")
    none: tuple[Pod, ...] = ()
    before: dict[str, Callable[[], Any]] = {
        "pod comes back": lambda: either.pod("pod-gpu-gone", "gpu-gone"),
        "pod of its name": lambda: either.pod("other1", "gpu-gone"),
        "beats": lambda: either.do(BEATS, "gpu-gone"),
        "active again": lambda: either.do("UPDATE workers SET status = 'spawning' WHERE id = 'gpu-gone'"),
        "list empty": lambda: monkeypatch.setattr(RunPodClient, "every_pod", lambda _: none),
        "provider fails": lambda: either.runpod.fail.extend([500] * 5),
    }
    before[what]()
    with pytest.raises(ActionRefused):
        mark_worker_row(step, either.context())
    assert either.status("gpu-gone") in ("active", "spawning")


def test_a_stale_row_is_marked(either: FleetWorld) -> None:
    either.row("gpu-gone", beat_s=5000)
    mark_worker_row(step_of(either.look()[1], "mark-worker-row"), either.context())
    assert either.status("gpu-gone") == "terminated"
    assert either.look()[1].state is State.HEALTHY
