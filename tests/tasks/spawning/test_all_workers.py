"""The target `workers`, the nightly's only look at the orchestrator: what one worker's run sees, it sees too."""

import time
from collections.abc import Callable

import pytest

from runbooks.core.verdict import Diagnosis, State
from tests.tasks.spawning.conftest import WORKER, World


def everything(w: World) -> None:
    """No worker is late; the orchestrator crashed, its key is missing, a pod leaks, two tasks stand at a dead worker."""
    w.railway.status = "CRASHED"
    del w.railway.variables["RUNPOD_SSH_PRIVATE_KEY"]
    w.runpod.add("podorphan", name="gpu-x", started=time.time() - 5000, cost=1.19)
    w.row(id="gpu-dead", status="terminated", pod="podgone", age_s=9000)
    for task in ("t1", "t2"):
        w.db.do("INSERT INTO tasks VALUES ($1, 'In Progress', 'gpu-dead', now())", task)


def refused(w: World) -> None:
    """Neither provider nor platform takes the key."""
    w.row(status="active", beat_s=5)
    w.pod()


def unserved(w: World) -> None:
    """Forty tasks wait, nobody lives, three pods are paid."""
    for i in range(40):
        w.db.do("INSERT INTO tasks VALUES ($1, 'Queued', NULL, NULL)", f"q{i}")
    for i in range(3):
        w.runpod.add(f"pod{i}", name=f"gpu-{i}", started=time.time() - 5000, cost=0.5)


def told(d: Diagnosis) -> set[tuple[str, str, str]]:
    """What is said of the surroundings, not of one worker."""
    return {(c.slug, c.certainty, c.subject) for c in d.causes if not c.benign and not c.subject.startswith("worker ")}


def look(world: World, target: str) -> Diagnosis:
    return world.look(world.context(target=target))[1]


def test_what_is_wrong_around_all_workers_is_told(world: World) -> None:
    everything(world)
    d = look(world, "workers")
    assert d.state is State.UNHEALTHY
    seen = {c.slug for c in d.causes}
    assert {"orchestrator-down", "private-half-missing", "pod-without-row", "task-held-by-dead-worker"} <= seen, d.headline
    assert "CRASHED" in d.headline
    assert any("1.19 an hour" in c for c in d.waiting_costs)
    assert [s.kind for p in d.plans for s in p.steps] == ["set-railway-variable"]


@pytest.mark.parametrize("broken", [everything, unserved], ids=lambda f: f.__name__)
def test_one_worker_and_all_say_the_same(world: World, broken: Callable[[World], None]) -> None:
    world.row(status="terminated", beat_s=5)
    broken(world)
    assert told(look(world, "workers")) == told(look(world, f"worker/{WORKER}"))


def test_refused_keys_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(world)
    monkeypatch.setenv("RAILWAY_TOKEN", "another")
    d = look(world, "workers")
    assert d.state is State.CANNOT_TELL
    assert any("Not Authorized" in u for u in d.unknowns), d.unknowns
    assert "not read" in d.headline
    monkeypatch.setenv("RUNPOD_API_KEY", "another")
    d = look(world, "workers")
    assert d.state is State.UNHEALTHY
    assert [f"{c.slug} {c.certainty}" for c in d.causes] == ["api-refused confirmed"], d.headline
    assert told(d) == told(look(world, f"worker/{WORKER}"))


def test_tasks_that_wait_for_nobody_are_told(world: World) -> None:
    unserved(world)
    d = look(world, "workers")
    assert d.state is State.UNHEALTHY
    assert ("queue-not-served", "likely", "the queue") in told(d), d.headline
    assert "40 tasks wait" in d.headline


def test_all_is_well_only_when_all_was_read(world: World) -> None:
    world.row(status="active", beat_s=5)
    world.pod()
    assert look(world, "workers").state is State.HEALTHY
    world.railway.status = "CRASHED"
    assert look(world, "workers").state is State.UNHEALTHY
