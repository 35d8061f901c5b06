"""`gpu-runbooks watch` on a real engine: a killed container is back at once, whatever else is restarted meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker_engine import Engine, docker_engine
from tests.support.engine_rig import Rig
from tests.support.watch_room import ALLOWS_25, watch_room

pytestmark = pytest.mark.xdist_group("containers")
APPLICATION = {"start": ["sleep", "77777"], "match": "sleep 77777", "setup": [["sh", "-c", "echo '(it''s set up)' > /tmp/done"]]}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


def runs_inside(engine: Engine, name: str) -> bool:
    return "sleep 77777" in engine.run("top", name, "-eo", "pid,args", check=False)


def test_a_killed_container_is_back_at_once_and_again(rig: Rig, engine: Engine, tmp_path: Path) -> None:
    engine.create("w1", "sleep", "infinity")
    engine.run("exec", "-d", "w1", "sleep", "77777")
    with watch_room(rig, tmp_path, engine, "w1", limits=ALLOWS_25, **APPLICATION) as room:
        room.start()
        for number in (1, 2):
            old = engine.inspect("w1")["Id"]
            engine.run("kill", "w1")
            took = room.wait(lambda: engine.inspect("w1")["Id"] != old and runs_inside(engine, "w1"), 60, "it to be back")  # noqa: B023
            print(f"back after {took:.2f} s")
            assert set(room.wait_outcomes(number)) == {"fixed"}
        assert room.stop() == 0
