"""The watch, an alert and a person on the same dead container at the same moment, on a real engine: one recreation."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.real import policy_of
from tests.support.docker_engine import Engine, docker_engine
from tests.support.engine_rig import Rig
from tests.support.gateway import Gateway, firing
from tests.support.watch_room import ALLOWS_25, KINDS, WatchRoom, watch_room

pytestmark = pytest.mark.soak
ALERTS = """
rules:
  - {name: dead, match: ['alertname="ContainerDead"'], runbook: container-death, target: '{{ node }}', mode: auto,
     options: {container: '{{ container }}'}}
"""
OFFSETS = (0.0, 0.2, 0.5, 0.8, 1.2, 2.0)  # seconds from the kill to the alert; the person comes 0.1 s later


@pytest.fixture
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


def test_one_recreation(rig: Rig, engine: Engine, tmp_path: Path) -> None:
    engine.create("w1", "sleep", "infinity")
    policy = policy_of(KINDS)
    with watch_room(rig, tmp_path, engine, "w1", policy=policy, limits=ALLOWS_25 | {"steady_s": 0.5}, match="sleep") as room:
        (tmp_path / "gw").mkdir()
        gateway = Gateway(tmp_path / "gw", tmp_path / "fleet.yaml", tmp_path / "policy.yaml", ALERTS, toy=False).start()
        try:
            room.start()
            for number, offset in enumerate(OFFSETS, 1):
                all_at_once(room, engine, gateway, offset)
                kept = engine.run("ps", "-aq", "--filter", "name=w1.dead-").split()
                assert len(kept) == number, f"{offset} s: {room.outcomes()}"
        finally:
            assert gateway.stop() == 0
        assert room.stop() == 0
        begun = [a for a in room.world.acts() if any(k.startswith("step.") for k in a.labels)]
        print(len(room.world.runs()), "runs,", len(begun), "acts:", room.outcomes())
    assert len(begun) == len(OFFSETS), "no act that was begun found nothing to do"


def all_at_once(room: WatchRoom, engine: Engine, gateway: Gateway, offset: float) -> None:
    """Kills it; the watch hears of it, an alert fires and a person starts a run. Until all of it has ended."""
    old = engine.inspect("w1")["Id"]
    engine.run("kill", "w1")

    def alert() -> None:
        time.sleep(offset)
        gateway.alert(firing("n", "ContainerDead", labels={"alertname": "ContainerDead", "node": "n", "container": "w1"}))

    other = threading.Thread(target=alert)
    other.start()
    time.sleep(offset + 0.1)
    pid, _ = room.world.start("auto", options={"container": "w1"})
    other.join()
    room.rig.wait(pid)
    room.wait(lambda: engine.inspect("w1")["Id"] != old and engine.inspect("w1")["State"]["Running"], 60, "it to be back")
    gateway.quiet()
    room.wait(lambda: all(r.state and r.state.is_final() for r in room.world.runs()), 60, "every run to end")
    time.sleep(1.5)  # a second trigger that came late would act now
