"""container-death on a real engine, killed at every point: never two containers, never acts twice, a true report."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.faults.real import AFTER_A_STEP, RealWorld, killed_at, outcome
from tests.support.docker_engine import Engine, docker_engine
from tests.support.engine_rig import Rig
from tests.support.watch_room import KINDS, fleet_of

pytestmark = pytest.mark.scored(fault="killed", point="by hand")

QUICK = {"steady_s": 0.5, "young_life_s": 1}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


class Box:
    """A container that died, and the engine's runs about it."""

    def __init__(self, rig: Rig, folder: Path, engine: Engine, kinds: tuple[str, ...] = KINDS, limits: dict[str, Any] = QUICK) -> None:
        self.engine, self.name = engine, f"box{uuid4().hex[:6]}"
        engine.create(self.name, "sleep", "infinity")
        engine.run("exec", "-d", self.name, "sleep", "77777")
        self.first = engine.inspect(self.name)["Id"]
        engine.run("kill", self.name)
        fleet = fleet_of(engine, self.name, limits, start=["sleep", "77777"], match="sleep 77777")
        node = f"n{uuid4().hex[:6]}"  # an owner of its own: after an act that was not seen to work a person is asked
        fleet["nodes"][0]["name"] = fleet["containers"][0]["node"] = node
        self.world = RealWorld(rig, folder, "container-death", node, fleet, kinds)

    def running(self) -> list[str]:
        """Names of its containers that run, kept ones too."""
        names = self.engine.run("ps", "--format", "{{.Names}}").split()
        return [n for n in names if n.startswith(self.name)]

    def all_names(self) -> list[str]:
        return sorted(n for n in self.engine.run("ps", "-a", "--format", "{{.Names}}").split() if n.startswith(self.name))

    def was_replaced(self) -> bool:
        return self.running() == [self.name] and bool(self.engine.inspect(self.name)["Id"] != self.first)


@pytest.mark.parametrize("point", killed_at("step-begins"))
def test_killed_at_a_point(rig: Rig, tmp_path: Path, engine: Engine, point: str) -> None:
    box = Box(rig, tmp_path, engine)
    box.world.arm(point)
    box.world.run("auto")
    assert box.world.struck()
    box.world.carry_on()
    box.world.check(max_acts=1)
    assert box.running() in ([], [box.name]), "never two"
    acted = point in AFTER_A_STEP
    assert box.was_replaced() == acted
    headline = box.world.report()["headline"]
    assert ("its process runs" in headline or "fixed" in headline) == acted, headline
    box.world.run("auto")  # what the next death's watch or alert would start
    box.world.carry_on()
    assert box.running() in ([], [box.name])
    assert box.world.report()["outcome"] in (("healthy",) if acted else ("waiting", "fixed"))


def test_one_that_has_only_ended_is_started_again(rig: Rig, tmp_path: Path, engine: Engine) -> None:
    """By itself where the policy names that kind: the same container, in a newer life, with its application; no other is made."""
    box = Box(rig, tmp_path, engine, (*KINDS, "start-container"), QUICK | {"young_life_s": 0})
    before = engine.inspect(box.name)["State"]["StartedAt"]
    assert outcome(box.world.run("auto")) == "fixed"
    now = engine.inspect(box.name)
    assert (now["Id"], now["State"]["Status"], box.all_names()) == (box.first, "running", [box.name])
    assert now["State"]["StartedAt"] > before
    assert "sleep 77777" in engine.run("top", box.name, "-eo", "pid,args")
    box.world.check(max_acts=1)


@pytest.mark.parametrize("point", killed_at())
def test_killed_at_a_point_while_it_is_started_again(rig: Rig, tmp_path: Path, engine: Engine, point: str) -> None:
    """It is started once or not at all, and never made anew beside that."""
    box = Box(rig, tmp_path, engine, (*KINDS, "start-container"), QUICK | {"young_life_s": 0})
    before = engine.inspect(box.name)["State"]["StartedAt"]
    box.world.arm(point)
    box.world.run("auto")
    assert box.world.struck()
    box.world.carry_on()
    box.world.check(max_acts=1)
    acted = point in AFTER_A_STEP
    assert (box.running() == [box.name]) == acted
    assert (engine.inspect(box.name)["State"]["StartedAt"] > before) == acted
    box.world.run("auto")
    box.world.carry_on()
    assert box.world.report()["outcome"] in (("healthy",) if acted else ("waiting", "fixed"))
    assert (box.all_names(), engine.inspect(box.name)["Id"]) == ([box.name], box.first)


@pytest.mark.soak
def test_diagnosed_approved_and_the_kept_one_removed_by_another_approval(
    rig: Rig, tmp_path: Path, engine: Engine
) -> None:
    box = Box(rig, tmp_path, engine, kinds=(*KINDS, "remove-kept-container"))
    assert outcome(box.world.run("diagnose")) == "sick"
    assert box.all_names() == [box.name]
    run = box.world.run("approve")
    assert outcome(run) == "waiting"
    assert box.running() == []
    box.world.approve(run)
    assert outcome(run) == "fixed"
    assert box.was_replaced()
    kept = f"{box.name}.dead-{box.first[:12]}"
    assert box.all_names() == sorted([box.name, kept])
    assert engine.inspect(kept)["HostConfig"]["RestartPolicy"]["Name"] == "no"
    removed_later(rig, tmp_path / "later", engine, box)


def removed_later(rig: Rig, folder: Path, engine: Engine, box: Box) -> None:
    folder.mkdir()
    fleet = fleet_of(engine, box.name, QUICK | {"keep_old_s": 0}, start=["sleep", "77777"], match="sleep 77777")
    world = RealWorld(rig, folder, "container-death", "n", fleet, (*KINDS, "remove-kept-container"))
    run = world.run("auto", options={"container": box.name, "remove_kept": "yes"})
    assert outcome(run) == "waiting", "destructive: never automatic, whatever the policy says"
    assert len(box.all_names()) == 2
    world.approve(run)
    assert outcome(run) == "fixed"
    assert box.all_names() == [box.name]
