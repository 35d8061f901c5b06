"""The orchestrator's own service: which deployment is in service, and an approved restart or new deployment of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runbooks.core.plan import Step
from runbooks.core.reading import Unknown
from runbooks.core.verdict import Diagnosis
from runbooks.parsers.railway import Deployment, in_service
from tasks.clients.railway import RailwayClient
from tasks.context import ActionRefused
from tasks.remote.unseen import UNSEEN
from tasks.spawning.act_service import redeploy_service, restart_service
from tests.support.printed import by_hand
from tests.support.racing import meanwhile
from tests.tasks.spawning.conftest import World
from tests.tasks.spawning.test_world import never_started, orchestrator_down, step_of

FAILED = {"id": "dep2", "status": "FAILED", "createdAt": "2026-01-02T00:00:00Z", "meta": {"commitHash": "77aa01b2" + "0" * 32}}


def crashed(w: World) -> None:
    """It cycled an hour ago, and the platform says that it crashed."""
    orchestrator_down(w)
    w.railway.status = "CRASHED"


def removed(w: World) -> None:
    """Somebody removed its only deployment."""
    orchestrator_down(w)
    w.railway.status = "REMOVED"


def slugs(d: Diagnosis) -> list[str]:
    return [f"{c.slug} {c.certainty}" for c in d.causes if c.subject == "the orchestrator"]


@pytest.mark.parametrize(
    ("states", "whole", "runs", "newer"),
    [
        ((), True, "", 0),
        (("SUCCESS", "REMOVED"), True, "0", 0),
        (("FAILED", "SUCCESS", "REMOVED"), True, "1", 1),
        (("BUILDING", "FAILED", "CRASHED"), True, "2", 2),
        (("FAILED", "REMOVED"), True, "0", 0),
        (("FAILED",) * 20, False, "", 20),
        (("BUILDING",), True, "0", 0),
    ],
)  # fmt: skip
def test_a_failed_deployment_replaces_nothing(states: tuple[str, ...], whole: bool, runs: str, newer: int) -> None:
    running, later = in_service([Deployment(id=str(i), status=s) for i, s in enumerate(states)], whole)
    assert (running.id if running else "", len(later)) == (runs, newer)


def test_an_orchestrator_that_cycles_is_not_down_for_a_deployment_that_failed(world: World) -> None:
    """Its log is read from the deployment in service, and the failed one is named with its commit."""
    never_started(world)
    world.railway.newer = [FAILED]
    assert slugs(world.look()[1]) == ["deployment-failed likely"]
    world.railway.newer = [FAILED | {"id": f"dep{n}"} for n in range(3, 23)]
    evidence, d = world.look()
    assert slugs(d) == []
    assert isinstance(evidence.deployment, Unknown)
    assert "not known" in evidence.deployment.why, "twenty that failed: which one runs cannot be told"


def test_a_crashed_orchestrator_is_started_again_and_cycles(world: World) -> None:
    crashed(world)
    _, d = world.look()
    assert [p.name for p in d.plans if "orchestrator-down" in p.for_causes] == ["restart the service"]
    said = restart_service(step_of(d, "restart-service"), world.context()).said
    assert UNSEEN in said
    assert world.railway.begun == ["dep1"]
    assert slugs(world.look()[1]) == []


def test_one_that_ends_again_is_still_down(world: World) -> None:
    crashed(world)
    world.railway.broken = True
    restart_service(step_of(world.look()[1], "restart-service"), world.context())
    assert slugs(world.look()[1]) == ["orchestrator-down confirmed"]


def test_a_removed_one_is_deployed_again(world: World) -> None:
    removed(world)
    _, d = world.look()
    assert [s.kind for p in d.plans for s in p.steps if "orchestrator-down" in p.for_causes] == ["redeploy-service"]
    assert "ask first" in str([p.why for p in d.plans])
    redeploy_service(step_of(d, "redeploy-service"), world.context())
    assert slugs(world.look()[1]) == []


def _changes(w: World) -> dict[str, Any]:
    def status() -> None:
        w.railway.status = "SUCCESS"

    def newer() -> None:
        w.railway.newer = [FAILED | {"status": "BUILDING"}]

    def another() -> None:
        w.railway.newer = [FAILED | {"status": "SUCCESS"}]

    return {"its status": status, "a build": newer, "another in service": another, "a cycle": lambda: w.railway.cycle()}


@pytest.mark.parametrize("what", ["its status", "a build", "another in service", "a cycle"])
@pytest.mark.parametrize("situation", [crashed, removed])
def test_what_changes_meanwhile_refuses_it(world: World, situation: Any, what: str) -> None:
    """Whoever brings it back first, or deploys, is not disturbed."""
    situation(world)
    act = restart_service if situation is crashed else redeploy_service
    step = step_of(world.look()[1], act.__name__.replace("_", "-"))
    race = meanwhile(RailwayClient, "log" if what == "a cycle" else "service", _changes(world)[what], before=True)
    with race, pytest.raises(ActionRefused, match=r"by now|cycles again"):
        act(step, world.context())
    assert world.railway.begun == []


def test_what_changes_in_the_last_moment_is_not_seen_and_that_is_said(world: World) -> None:
    crashed(world)
    step = step_of(world.look()[1], "restart-service")
    with meanwhile(RailwayClient, "restart", world.railway.cycle, before=True):
        assert UNSEEN in restart_service(step, world.context()).said


def test_what_cannot_be_read_again_refuses_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed(world)
    step = step_of(world.look()[1], "restart-service")
    monkeypatch.setenv("RAILWAY_TOKEN", "another")
    with pytest.raises(ActionRefused, match="could not be read again"):
        restart_service(step, world.context())
    assert world.railway.begun == []


@pytest.mark.parametrize(("situation", "kind"), [(crashed, "restart-service"), (removed, "redeploy-service")])
def test_what_is_printed_starts_the_service(world: World, situation: Any, kind: str) -> None:
    situation(world)
    step: Step = step_of(world.look()[1], kind)
    assert "Not Authorized" in by_hand([step], env={"RAILWAY_TOKEN": "another"}).stdout
    assert world.railway.begun == []
    done = by_hand([step])
    assert done.returncode == 0, (step.commands, done.stderr)
    assert world.railway.begun == ["dep1"]
    assert slugs(world.look()[1]) == []


def test_a_log_older_than_a_day_is_told_by_its_age(world: World) -> None:
    """A service that runs and has not cycled: restarted as well, for its program hangs."""
    never_started(world)
    world.railway.lines = []
    world.railway.cycle(datetime.now(UTC) - timedelta(days=1))
    _, d = world.look()
    assert [p.name for p in d.plans if "orchestrator-down" in p.for_causes] == ["restart the service"]
