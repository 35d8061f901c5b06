"""A container that has only ended, started again on a real engine: the same one, with what it had; and whoever comes first."""

from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from runbooks.container.parsers.docker import parse_time
from runbooks.container.words import clock
from runbooks.core.plan import Plan
from runbooks.core.verdict import State
from tasks.container.probes import start_container
from tasks.container.probes.engine_api import Api
from tasks.context import ActionRefused
from tasks.transport.base import TransportError
from tests.support.docker_engine import Engine
from tests.support.printed import by_hand
from tests.tasks.container.world import World, confirmed

LONG_S = 120.0
OLD_ENOUGH = {"young_life_s": 0, "steady_s": 0.1}  # no life is too short


def ended(engine: Engine, *command: str, **fields: Any) -> tuple[str, str, World]:
    """Name and id of a container that was killed, and its world."""
    name = f"start{uuid4().hex[:6]}"
    ident = engine.create(name, *(command or ("sleep", "infinity")))
    engine.run("exec", name, "sh", "-c", "echo kept > /mine")
    engine.run("kill", name)
    engine.wait_status(name, "exited", LONG_S)
    return name, ident, World(engine, name, OLD_ENOUGH, **fields)


def starting(world: World) -> Plan:
    """The first plan, which is the start."""
    plan = world.judge().plans[0]
    assert [s.kind for s in plan.steps] == ["start-container"]
    return plan


def named(engine: Engine, name: str) -> list[str]:
    """Every container of that name or one made of it."""
    return [n for n in engine.run("ps", "-a", "--format", "{{.Names}}").split() if n.startswith(name)]


def proven(engine: Engine, world: World, name: str, ident: str, before: str) -> None:
    """The same container runs in a newer life, with what it wrote and its application; there is no second one."""
    now = engine.wait_status(name, "running", LONG_S)
    assert now["Id"] == ident
    assert now["State"]["StartedAt"] > before
    assert engine.run("exec", name, "cat", "/mine", "/set").split() == ["kept", "s"]
    assert named(engine, name) == [name]
    world.context.sleep(0.2)
    assert "killed-through-engine" not in confirmed(world.judge())


FIELDS: dict[str, Any] = {"setup": (("sh", "-c", "echo s > /set"),), "start": ("sleep", "4321"), "match": "sleep 4321"}


def test_the_same_container_runs_again_with_what_it_wrote(engine: Engine) -> None:
    name, ident, world = ended(engine, **FIELDS)
    before = engine.inspect(name)["State"]["StartedAt"]
    said = world.act(starting(world))
    assert any("was started at" in x and clock(parse_time(before)) in x for x in said), said
    assert sum("-> exit 0" in x for x in said) == 2, said
    assert "sleep 4321" in engine.run("top", name, "-eo", "pid,args")
    proven(engine, world, name, ident, before)
    assert world.judge().state is State.HEALTHY


def test_what_is_printed_starts_it(engine: Engine) -> None:
    name, ident, world = ended(engine, **FIELDS)
    before = engine.inspect(name)["State"]["StartedAt"]
    done = by_hand(starting(world).steps)
    assert done.returncode == 0, done.stderr
    assert "sleep 4321" in engine.run("top", name, "-eo", "pid,args")
    proven(engine, world, name, ident, before)


def test_it_refuses_another_life_another_name_and_none(engine: Engine) -> None:
    """Nothing of the fleet file's commands is run in what runs already or ran again."""
    name, ident, world = ended(engine, **FIELDS)
    plan = starting(world)
    engine.run("start", name)
    with pytest.raises(ActionRefused, match="it is running now"):
        world.act(plan)
    assert "sleep 4321" not in engine.run("top", name, "-eo", "pid,args")
    engine.run("kill", name)
    engine.wait_status(name, "exited", LONG_S)
    with pytest.raises(ActionRefused, match="it was started at"):
        world.act(plan)
    engine.run("rename", name, f"{name}x")
    with pytest.raises(ActionRefused, match="is now called"):
        world.act(plan)
    engine.run("rm", ident)
    with pytest.raises(ActionRefused, match="there is no container"):
        world.act(plan)


@pytest.mark.parametrize(("what", "words"), [("start", "somebody else started it"), ("rm", "was removed in this very moment")])
def test_who_comes_between_the_look_and_the_start(engine: Engine, monkeypatch: pytest.MonkeyPatch, what: str, words: str) -> None:
    """It is refused, and nothing is run in what somebody else started."""
    name, ident, world = ended(engine, **FIELDS)
    plan, real = starting(world), Api.start

    def late(api: Api, box: str, *more: Any) -> bool:
        engine.run(what, ident)
        return real(api, box, *more)

    monkeypatch.setattr(Api, "start", late)
    got = start_container.main(dict(plan.steps[0].args))
    assert (got["code"], words in got["refused"]) == ("target-changed", True), got
    assert named(engine, name) == ([name] if what == "start" else [])
    if what == "start":
        assert "sleep 4321" not in engine.run("top", name, "-eo", "pid,args")


def test_one_that_ends_at_once_again_is_no_success(engine: Engine) -> None:
    name, _, world = ended(engine, "sh", "-c", "[ ! -e /broken ] || exit 7; sleep infinity")
    plan = starting(world)
    copied = engine.folder / f"{name}.empty"
    copied.touch()
    engine.run("cp", str(copied), f"{name}:/broken")
    with suppress(TransportError):  # it had ended by the look that follows the start, or not yet
        world.act(plan)
    assert engine.wait_status(name, "exited", LONG_S)["State"]["ExitCode"] == 7
    assert "main-exited-error" in confirmed(world.judge())
    assert [s.kind for p in world.judge().plans for s in p.steps] == ["recreate-container"]
