"""`gpu-runbooks watch` on a real engine: a killed container is back at once, whatever else is restarted meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows import store
from runbooks.core.policy import KindPolicy
from tests.faults.real import policy_of
from tests.support.docker_engine import Engine, docker_engine
from tests.support.engine_rig import Rig, kill_and_wait
from tests.support.watch_room import KINDS, WatchRoom, watch_room

pytestmark = pytest.mark.scored(fault="watch, server or engine killed", point="while containers die")

APPLICATION: dict[str, Any] = {
    "start": ["sleep", "77777"],
    "match": "sleep 77777",
    "setup": [["sh", "-c", "echo '(it is \"set\" up)' > /tmp/done"]],
}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


def by_default() -> dict[str, Any]:
    """These kinds by themselves and without a cooldown; otherwise with the default limits."""
    return {**policy_of(())["kinds"], **{k: {"mode": "auto", "cooldown_s": 0} for k in KINDS}}


def create(engine: Engine, name: str) -> None:
    engine.create(name, "sleep", "infinity")
    engine.run("exec", "-d", name, "sleep", "77777")


def is_back(engine: Engine, name: str, old: str) -> bool:
    inside = engine.run("top", name, "-eo", "pid,args", check=False)
    return "sleep 77777" in inside and bool(engine.inspect(name)["Id"] != old)


def back(room: WatchRoom, engine: Engine, name: str, old: str) -> float:
    return room.wait(lambda: is_back(engine, name, old), 60, f"{name} to be back")


QUICK = {"young_life_s": 1, "steady_s": 0.5, "backoff_base_s": 0.5}  # the deaths that it stops at stay as they are


def test_a_container_that_dies_while_the_watch_is_dead_is_back_once(rig: Rig, engine: Engine, tmp_path: Path) -> None:
    """The watch is killed as well; the next one finds what happened meanwhile, and does it once."""
    create(engine, "w1")
    policy = policy_of(()) | {"kinds": by_default()}
    with watch_room(rig, tmp_path, engine, "w1", policy=policy, limits=QUICK, **APPLICATION) as room:
        room.start()
        room.kill()
        old = kill(engine, "w1")
        room.start()
        back(room, engine, "w1", old)
        assert room.wait_outcomes(1) == ["fixed"]
        assert room.stop() == 0
        assert len(room.world.runs()) == 1
    assert engine.run("ps", "--format", "{{.Names}}").split() == ["w1"]


def recreated() -> int:
    """How often other tests had a killed container recreated on this machine: that counts too."""
    acts = [r.parameters for r in store.find_runs([store.ACT_TAG]) if r.parameters.get("owner") == "n"]
    return sum("recreate-container" in a["kinds"] and "killed-through-engine" in a["causes"] for a in acts)


@pytest.mark.soak
def test_it_comes_back_whatever_is_restarted_and_stops_at_three(rig: Rig, engine: Engine, tmp_path: Path) -> None:
    """One watch, three containers: killed, left without their application, stopped; watch, server, daemon restarted."""
    for name in ("s1", "s2", "s3"):
        create(engine, name)
    policy = policy_of(()) | {"kinds": by_default()}
    policy["kinds"]["recreate-container"]["attempts"] = KindPolicy().attempts + recreated()
    with watch_room(
        rig, tmp_path, engine, "s1", policy=policy, limits=QUICK, others=("s2", "s3"), **APPLICATION
    ) as room:
        room.start()
        first_kill(room, engine)
        killed_while_the_watch_is_dead(room, engine)
        killed_while_the_server_restarts(room, engine)
        third_death_is_for_a_person(room, engine)
        lost_application(room, engine)
        stopped_by_a_person(room, engine)
        daemon_restarted(room, engine)
        named_while_it_is_watched(room, engine)
        assert room.stop() == 0
    assert set(engine.run("ps", "--format", "{{.Names}}").split()) == {"s3"}, "nothing else may run"


def kill(engine: Engine, name: str) -> str:
    old = str(engine.inspect(name)["Id"])
    engine.run("kill", name)
    return old


def first_kill(room: WatchRoom, engine: Engine) -> None:
    back(room, engine, "s1", kill(engine, "s1"))
    assert engine.run("exec", "s1", "cat", "/tmp/done") == '(it is "set" up)'
    assert room.wait_outcomes(1) == ["fixed"]


def killed_while_the_watch_is_dead(room: WatchRoom, engine: Engine) -> None:
    room.kill()
    old = kill(engine, "s2")
    room.start()
    back(room, engine, "s2", old)
    assert room.wait_outcomes(2)[-1] == "fixed"


def killed_while_the_server_restarts(room: WatchRoom, engine: Engine) -> None:
    kill_and_wait(room.rig.server_pid())
    old = kill(engine, "s1")
    room.rig.start_server()
    back(room, engine, "s1", old)
    assert room.wait_outcomes(3)[-1] == "fixed"


def third_death_is_for_a_person(room: WatchRoom, engine: Engine) -> None:
    kill(engine, "s1")
    assert room.wait_outcomes(4)[-1] == "sick"
    room.wait(lambda: "a person must look" in room.log.read_text(), 10, "it to stop")
    diagnosis = room.world.report()["diagnosis"]
    assert "It died too often to be restarted automatically" in diagnosis["headline"]
    assert any("samples over" in f["issue"] for f in diagnosis["findings"]), "the minutes before are in the report"
    assert engine.inspect("s1")["State"]["Status"] == "exited"


def lost_application(room: WatchRoom, engine: Engine) -> None:
    engine.run("exec", "s2", "sh", "-c", "kill -9 $(ps | awk '/sleep 77777/ && !/awk/ {print $1}')")
    room.wait(lambda: "sleep 77777" in engine.run("top", "s2", "-eo", "pid,args"), 60, "the application")
    assert room.wait_outcomes(5)[-1] == "fixed"


def stopped_by_a_person(room: WatchRoom, engine: Engine) -> None:
    old = engine.inspect("s2")["Id"]
    engine.run("stop", "-t", "0", "s2")
    assert room.wait_outcomes(6)[-1] == "healthy"
    assert engine.inspect("s2")["Id"] == old


def daemon_restarted(room: WatchRoom, engine: Engine) -> None:
    old = engine.inspect("s3")["Id"]
    engine.stop_daemon()  # takes the container with it
    engine.up()
    back(room, engine, "s3", old)
    assert room.wait_outcomes(7)[-1] == "fixed"
    assert "daemon-restarted" in str(room.world.report()["diagnosis"])


def named_while_it_is_watched(room: WatchRoom, engine: Engine) -> None:
    create(engine, "s4")
    path = room.world.folder / "fleet.yaml"
    fleet = yaml.safe_load(path.read_text())
    fleet["containers"].append(fleet["containers"][0] | {"name": "s4"})
    path.write_text(yaml.safe_dump(fleet))
    room.wait(
        lambda: "watching" in room.log.read_text().rpartition("the fleet file changed")[2], 20, "it to be read again"
    )
    before = len(room.world.runs())  # eight, where the daemon took longer than its grace to come back
    kill(engine, "s4")
    assert room.wait_outcomes(before + 1)[-1] == "waiting", "the default allows three of one cause on a host and hour"
    assert engine.inspect("s4")["State"]["Status"] == "exited"
