"""A Ray head that hangs under the watch: workers that are well are left alone, others are looked after, and it all goes on."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.real import outcome
from tests.support.docker_engine import Engine
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import RayCluster, ray_cluster
from tests.support.ray_worker import living, worker_room
from tests.support.recovery import NAME, by_hand, fields, ray_section
from tests.support.watch_room import ALLOWS_25, WatchRoom, fleet_of, watch_room
from tests.tasks.ray.test_hanging_head import stopped

pytestmark = pytest.mark.soak


@pytest.fixture
def place() -> Iterator[tuple[RayCluster, Engine, str]]:
    with ray_cluster() as cluster, worker_room(cluster) as (engine, dashboard):
        yield cluster, engine, dashboard


def about(room: WatchRoom, name: str) -> list[dict[str, Any]]:
    """Reports about that container."""
    return [r for r in room.world.reports() if r["evidence"]["name"] == name]


def says(room: WatchRoom, slug: str) -> bool:
    """True once a report about the worker names that cause; such a report has no act."""
    found = [r for r in about(room, NAME) if slug in [c["slug"] for c in r["diagnosis"]["causes"]]]
    assert all(r["acts"] == [] for r in found)
    return bool(found)


def test_a_head_that_hangs_costs_nobody_a_worker(rig: Rig, place: tuple[RayCluster, Engine, str], tmp_path: Path) -> None:
    cluster, engine, dashboard = place
    by_hand(engine, cluster)
    engine.create("plain", "sleep", "infinity")
    ray = ray_section(dashboard) | {"temp_dir": str(cluster.temp)}
    with watch_room(rig, tmp_path, engine, NAME, limits=ALLOWS_25 | {"steady_s": 0.5}, ray=ray, **fields(cluster)) as room:
        path = room.world.folder / "fleet.yaml"
        fleet = yaml.safe_load(path.read_text())
        plain = fleet_of(engine, "plain", match="sleep")["containers"]
        path.write_text(yaml.safe_dump(fleet | {"containers": fleet["containers"] + plain}))
        room.start()
        left_alone(room, cluster, engine)
        died_meanwhile(room, cluster, engine)
        assert room.stop() == 0


def left_alone(room: WatchRoom, cluster: RayCluster, engine: Engine) -> None:
    """The worker is well and stays what it is; the other container on the node is brought back meanwhile."""
    worker, nodes, plain = engine.inspect(NAME)["Id"], living(cluster), engine.inspect("plain")["Id"]
    with stopped(cluster.process("gcs_server")):
        began = time.monotonic()
        engine.run("kill", "plain")
        room.wait(lambda: engine.inspect("plain")["Id"] != plain, 40, "the other container to be back")
        assert outcome(room.world.run("auto", options={"container": NAME})) == "sick", "a person's run at the same time"
        assert says(room, "head-stuck")
        print(f"held for {time.monotonic() - began:.0f} s")
        time.sleep(max(0.0, 35 - (time.monotonic() - began)))
    time.sleep(5)
    assert (engine.inspect(NAME)["Id"], living(cluster)) == (worker, nodes)
    assert len(about(room, NAME)) == 1, "the watch itself asked nothing about it"


def died_meanwhile(room: WatchRoom, cluster: RayCluster, engine: Engine) -> None:
    """It dies while the head hangs: the head first; then the watch brings it back by itself."""
    worker, nodes, seen = engine.inspect(NAME)["Id"], living(cluster), len(about(room, NAME))
    with stopped(cluster.process("gcs_server")):
        engine.run("kill", NAME)
        room.wait(lambda: len(about(room, NAME)) > seen, 40, "a report about it")
        assert says(room, "head-stuck")
        assert engine.inspect(NAME)["Id"] == worker
    room.wait(lambda: bool(living(cluster) - nodes), 90, "its new node")
    assert engine.inspect(NAME)["Id"] != worker
