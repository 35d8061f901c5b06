"""Who is at work in a container, on a real engine: plans that would end it wait, for the judgment and in the moment of the act."""

from pathlib import Path

import pytest

from runbooks.core.reading import Absent, Known
from runbooks.core.refusal import RefusalCode
from runbooks.core.verdict import State
from tasks.context import ActionRefused
from tests.support.docker_engine import Engine
from tests.support.waiting import until
from tests.tasks.container.world import World, confirmed


def world(engine: Engine, name: str) -> World:
    return World(engine, name, match="sleep 79", start=("sleep", "79"))


def test_somebody_computes_beside_a_dead_application(engine: Engine) -> None:
    engine.create("lab", "sleep", "infinity")
    pid, lab = engine.compute_in("lab"), world(engine, "lab")
    found = lab.judge()
    assert confirmed(found) == ["application-dead"]
    assert found.plans == ()
    (plan,) = found.knowingly
    assert plan.name == "restart the application"
    assert f"pid {pid} (busybox dd" in plan.despite
    lab.act(plan)  # chosen by somebody who read that: who was known does not hold it up, and is not ended by it
    until(lambda: lab.judge().state is State.HEALTHY, 20, "a healthy application")
    assert Path(f"/proc/{pid}").exists()
    engine.run("rm", "-f", "lab")


def test_what_idles_beside_a_dead_application_is_not_at_work(engine: Engine) -> None:
    engine.create("quiet", "sleep", "infinity")
    for argv in (("crond", "-f"), ("sh", "-c", "while sleep 0.5; do :; done"), ("nc", "-l", "-p", "9999")):
        engine.run("exec", "-d", "quiet", "busybox", *argv)
    quiet = World(engine, "quiet", {"work_window_s": 3}, match="sleep 79", start=("sleep", "79"))
    evidence = quiet.gather()
    assert isinstance(evidence.work, Known)
    assert evidence.work.value == ()
    assert [p.name for p in quiet.judge().plans] == ["restart the application"]
    engine.run("rm", "-f", "quiet")


def test_who_begins_to_work_after_the_judgment_is_spared(engine: Engine) -> None:
    engine.create("late", "sleep", "infinity")
    late = world(engine, "late")
    (plan,) = late.judge().plans
    pid = engine.compute_in("late")
    with pytest.raises(ActionRefused, match=rf"pid {pid} \(busybox dd") as no:
        late.act(plan)
    assert no.value.code is RefusalCode.IN_USE
    assert Path(f"/proc/{pid}").exists()
    engine.run("rm", "-f", "late")


def test_in_one_that_has_ended_nobody_is(engine: Engine) -> None:
    engine.create("gone", "true")
    engine.wait_status("gone", "exited")
    assert isinstance(world(engine, "gone").gather().work, Absent)
