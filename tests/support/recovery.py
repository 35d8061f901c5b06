"""Kills a Ray worker's container and measures until the head lists a new living node; the floor and a retry loop beside it."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.docker_engine import Engine
from tests.support.ray_cluster import RayCluster
from tests.support.ray_worker import FLOOR_IP, IMAGE, IP, SETUP, living, options, run_worker, start_argv
from tests.support.watch_room import WatchRoom

NAME = "rayworker"
WATCHED = {"setup": [list(a) for a in SETUP], "ray_ip": IP, "match": "raylet"}
LIMIT_S = 150.0


def fields(cluster: RayCluster) -> dict[str, Any]:
    """The fleet file's words about the worker's container."""
    return {**WATCHED, "start": list(start_argv(cluster)), "start_detached": False}


def ray_section(dashboard: str) -> dict[str, Any]:
    """The fleet file's words about the cluster."""
    return {"head": "n", "dashboard": dashboard}


def wait_new(cluster: RayCluster, before: frozenset[str], began: float, ip: str = IP) -> float:
    """Seconds since `began` until a node that was not there is alive."""
    while not living(cluster, ip) - before:
        assert time.monotonic() - began < LIMIT_S, "no new Ray node"
        time.sleep(0.05)
    return time.monotonic() - began


def by_hand(engine: Engine, cluster: RayCluster, name: str = NAME, ip: str = IP) -> float:
    """The floor: `docker run`, set-up, `ray start`, until ALIVE."""
    before, began = living(cluster, ip), time.monotonic()
    run_worker(engine, cluster, name)
    for argv in SETUP:
        engine.run("exec", name, *argv)
    engine.run("exec", name, *start_argv(cluster, ip))
    return wait_new(cluster, before, began, ip)


def floor(engine: Engine, cluster: RayCluster) -> float:
    """Once, with a worker of its own beside the watched one, which idles meanwhile; it is gone afterwards."""
    try:
        return by_hand(engine, cluster, "floor", FLOOR_IP)
    finally:
        engine.run("rm", "-f", "floor")


def kill_and_wait(engine: Engine, cluster: RayCluster, sig: str = "KILL") -> float:
    """From the kill to a new living node, whoever brings it back."""
    before, began = living(cluster), time.monotonic()
    engine.run("kill", "-s", sig, NAME)
    return wait_new(cluster, before, began)


def kills(room: WatchRoom, engine: Engine, cluster: RayCluster, number: int) -> tuple[list[float], list[float]]:
    """So many kills in a row, each after the run before has ended, and the floor after every second one.

    AssertionError when one was not fixed by itself.
    """
    times, floors = [], [floor(engine, cluster)]
    for n in range(1, number + 1):
        times.append(kill_and_wait(engine, cluster))
        found = room.wait_outcomes(n, 120)
        if n % 2 == 0:
            floors.append(floor(engine, cluster))
        print(f"kill {n}: back after {times[-1]:.1f} s, {found[-1]}; floor {floors[-1]:.1f} s", flush=True)
        assert set(found) == {"fixed"}, found
    return times, floors


@contextmanager
def retry_loop(engine: Engine, cluster: RayCluster, folder: Path) -> Iterator[None]:
    """The seed's loop in its last form: look, recreate, set up, start, sleep ten seconds."""
    import shlex

    docker, words = shlex.join(engine.argv), shlex.join(options(cluster))
    setup = "\n".join(f"  {docker} exec {NAME} {shlex.join(a)} || true" for a in SETUP)
    script = folder / "ray_retry.sh"
    script.write_text(
        f"while true; do\n if ! {docker} ps --format '{{{{.Names}}}}' | grep -qx {NAME}; then\n  {docker} rm -f {NAME}\n"
        f"  {docker} run -d --pull=never --network=host --name {NAME} {words} {IMAGE} sleep infinity\n{setup}\n"
        f"  {docker} exec {NAME} {shlex.join(start_argv(cluster))}\n fi\n sleep 10\ndone\n"
    )
    with (folder / "loop.log").open("wb") as log:
        process = subprocess.Popen(["sh", str(script)], stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def loop_kills(engine: Engine, cluster: RayCluster, folder: Path, number: int) -> list[float]:
    """Kills under the plain loop, at random moments of its ten seconds."""
    times = []
    with retry_loop(engine, cluster, folder):
        for _ in range(number):
            time.sleep(random.uniform(11, 21))
            times.append(kill_and_wait(engine, cluster))
    return times


def in_words(name: str, times: list[float]) -> str:
    """A line of the benchmark."""
    return f"{name:<18} median {median(times):.1f} s, worst {max(times):.1f} s, {len(times)} times"
