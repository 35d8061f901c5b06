"""`gpu-runbooks watch` over a real Ray worker in a real container: from kill to ALIVE, near what nobody can save."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median

import pytest

from tests.faults.real import policy_of
from tests.support.docker_engine import Engine
from tests.support.engine_rig import Rig
from tests.support.ray_cluster import RayCluster, ray_cluster
from tests.support.ray_worker import worker_room
from tests.support.recovery import by_hand, fields, in_words, kill_and_wait, kills, ray_section
from tests.support.soak import record
from tests.support.watch_room import ALLOWS_25, KINDS, WatchRoom, watch_room

pytestmark = pytest.mark.scored(fault="container killed again and again", point="while it is watched")


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[RayCluster, Engine, str]]:
    with ray_cluster(patience=10) as cluster, worker_room(cluster) as (engine, dashboard):
        yield cluster, engine, dashboard


def test_a_killed_worker_is_alive_again_at_the_head(
    rig: Rig, place: tuple[RayCluster, Engine, str], tmp_path: Path
) -> None:
    cluster, engine, dashboard = place
    base = by_hand(engine, cluster)
    with watch_room(
        rig, tmp_path, engine, "rayworker", limits=ALLOWS_25, ray=ray_section(dashboard), **fields(cluster)
    ) as room:
        room.start()
        took = kill_and_wait(engine, cluster)
        assert room.wait_outcomes(1) == ["fixed"]
        said = "; ".join(room.world.report()["acts"][0]["said"])
        engine.run("rm", "-f", "rayworker", check=False)
    assert "is ALIVE at the head" in said
    assert took < base + 30, f"floor {base:.1f} s, back after {took:.1f} s"
    print(f"floor {base:.1f} s, back after {took:.1f} s")


@pytest.mark.soak
def test_a_killed_worker_is_started_again_and_joins_as_a_new_node(
    rig: Rig, place: tuple[RayCluster, Engine, str], tmp_path: Path
) -> None:
    """Where the policy names that kind: the same container each time, with what the life before left of Ray in it."""
    cluster, engine, dashboard = place
    by_hand(engine, cluster)
    ident, kept = engine.inspect("rayworker")["Id"], set_aside(engine)
    policy, limits = policy_of((*KINDS, "start-container")), ALLOWS_25 | {"young_life_s": 0}
    with watch_room(
        rig, tmp_path, engine, "rayworker", policy=policy, limits=limits, ray=ray_section(dashboard), **fields(cluster)
    ) as room:
        room.start()
        for n in range(3):
            kill_and_wait(engine, cluster)
            assert room.wait_outcomes(n + 1) == ["fixed"] * (n + 1)
            assert engine.inspect("rayworker")["Id"] == ident
        after = set_aside(engine)
        engine.run("rm", "-f", "rayworker", check=False)
    assert after == kept, "it was recreated, not started again"


def set_aside(engine: Engine) -> set[str]:
    """Containers that recreations have put aside, by those of other tests too."""
    return {x for x in engine.run("ps", "-a", "--format", "{{.Names}}").split() if x.startswith("rayworker.")}


@pytest.mark.soak
def test_twenty_kills_in_a_row(rig: Rig, place: tuple[RayCluster, Engine, str], tmp_path: Path) -> None:
    cluster, engine, dashboard = place
    by_hand(engine, cluster)
    policy = policy_of(KINDS)
    policy["kinds"]["recreate-container"] = {"mode": "auto", "cooldown_s": 0, "attempts": 25}
    with watch_room(
        rig,
        tmp_path,
        engine,
        "rayworker",
        policy=policy,
        limits=ALLOWS_25,
        ray=ray_section(dashboard),
        **fields(cluster),
    ) as room:
        room.start()
        times, floors = kills(room, engine, cluster, 20)
        own = until_the_act(room)
        engine.run("rm", "-f", "rayworker", check=False)
    print(in_words("floor", floors), in_words("watch", times), in_words("death to act", own), sep="\n")
    note(floors, times, own)
    assert median(times) < median(floors) + 30  # each came back; how fast is measured by `python -m tests.bench recovery`


def until_the_act(room: WatchRoom) -> list[float]:
    """Seconds from each death to its act's begin: what the watch adds. The rest is the engine's and Ray's own time."""
    found = []
    for report in room.world.reports():
        death = datetime.fromisoformat(report["evidence"]["container"]["value"]["finished_at"])
        found.append((datetime.fromisoformat(report["acts"][0]["started_at"]) - death).total_seconds())
    return found


def note(floors: list[float], times: list[float], own: list[float]) -> None:
    """Writes the numbers down."""
    record("watch_kills", {
        "kills_in_a_row": len(times), "without_a_person": True, "floor_median_s": round(median(floors), 1),
        "watch_median_s": round(median(times), 1), "watch_worst_s": round(max(times), 1),
        "floor_worst_s": round(max(floors), 1), "death_to_act_median_s": round(median(own), 1),
        "death_to_act_worst_s": round(max(own), 1),
    })  # fmt: skip
