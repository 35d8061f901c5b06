"""Measures recovery of a killed container: read, judge, act, against the floor and a ten-second retry loop.

Run: `python -m tests.bench.bench_recovery [rounds]`. The floor is run + set-up + application by the engine's own
client, in the same run. The engine's claim and flow start are not in it (about 1 s more).
"""

import random
import statistics
import sys
import time

from tests.support.docker_engine import Engine, docker_engine
from tests.tasks.containers.world import World

SETUP = (("sh", "-c", "echo set up > /tmp/done"),)
APPLICATION = ("sleep", "77777")


def floor(engine: Engine) -> float:
    """Seconds of what nobody can save: run, set-up, application."""
    began = time.monotonic()
    engine.create("floor", "sleep", "infinity")
    engine.run("exec", "floor", *SETUP[0])
    engine.run("exec", "-d", "floor", *APPLICATION)
    seconds = time.monotonic() - began
    engine.run("rm", "-f", "floor")
    return seconds


def recovery(engine: Engine, world: World) -> float:
    """Seconds from the kill until the application runs in a new container."""
    old = engine.inspect("bench")["Id"]
    began = time.monotonic()
    engine.run("kill", "bench")
    plans = world.judge().plans
    world.act(plans[0])
    while "sleep 77777" not in engine.run("top", "bench", "-eo", "pid,args", check=False):
        time.sleep(0.05)
    if engine.inspect("bench")["Id"] == old:
        raise AssertionError("the same container")
    return time.monotonic() - began


def main(rounds: int) -> None:
    """Print medians and the worst."""
    with docker_engine() as engine:
        engine.create("bench", "sleep", "3600")
        floors = [floor(engine) for _ in range(min(rounds, 5))]
        limits = {"deaths_to_escalate": 10_000, "backoff_base_s": 0}
        world = World(engine, "bench", limits, setup=SETUP, start=APPLICATION, match="sleep 77777")
        times = [recovery(engine, world) for _ in range(rounds)]
    base = statistics.median(floors)
    loop = [random.uniform(0, 10) + base for _ in times]
    print(f"floor              median {base:.2f} s")
    print(
        f"read, judge, act   median {statistics.median(times):.2f} s, worst {max(times):.2f} s, {rounds} kills in a row"
    )
    print(
        f"10-second loop     median {statistics.median(loop):.2f} s, worst {max(loop):.2f} s (computed: wait + floor)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
