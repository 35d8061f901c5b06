"""Podman through its Docker-compatible socket: what it never tells is said, and the container comes back all the same."""

import threading
import time
from collections.abc import Iterator

import pytest

from tasks.container.watch import known_from, wait_at_engine
from tasks.transport.local import LocalHost
from tests.support.docker_engine import Engine
from tests.support.podman_engine import podman_engine
from tests.tasks.container.world import World, confirmed


@pytest.fixture(scope="module")
def podman() -> Iterator[Engine]:
    with podman_engine() as found:
        yield found


def test_its_sleep_ran_out_and_it_is_recreated(podman: Engine) -> None:
    podman.create("pm1", "sleep", "1", options=("-e", "A=b c", "-l", "k=v"))
    first = podman.inspect("pm1")["Id"]
    podman.wait_status("pm1", "exited")
    world = World(podman, "pm1", {"life_slack_s": 1}, setup=(("sh", "-c", "echo '(it''s)' > /tmp/done"),))
    found = world.judge()
    assert confirmed(found) == ["keep-alive-ended"]
    said = world.act(found.plans[0])
    now = podman.inspect("pm1")
    assert now["Id"] != first
    assert now["State"]["Status"] == "running"
    assert "A=b c" in now["Config"]["Env"]
    assert now["Config"]["Labels"]["k"] == "v"
    assert any("exit 0" in line for line in said), said
    assert podman.run("ps", "--format", "{{.Names}}").split() == ["pm1"]


def test_killed_from_outside_is_not_repaired_by_guess(podman: Engine) -> None:
    """Without events a person's stop and a stranger's kill look alike: both are left to a person."""
    podman.create("pm2", "sleep", "1000")
    podman.run("kill", "pm2")
    podman.wait_status("pm2", "exited")
    found = World(podman, "pm2", {"together_s": 0.01}).judge()  # other tests' containers end in these seconds, too
    assert [c.slug for c in found.causes] in (["killed-from-outside"], ["killed-through-engine"])
    assert not found.plans or found.causes[0].slug == "killed-through-engine"


def test_a_real_oom_whose_flag_is_false_is_still_an_oom(podman: Engine) -> None:
    podman.run("run", "-d", "--network=host", "--name", "pm3", "-m", "32m", "bb:1", "tail", "/dev/zero")
    state = podman.wait_status("pm3", "exited")["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (137, False)
    found = World(podman, "pm3").judge()
    assert confirmed(found) == ["oom-container"]
    assert any("always false" in f.issue for f in found.findings)


def test_the_watch_sees_a_death_without_events(podman: Engine) -> None:
    podman.create("pm4", "sleep", "1000")
    it = World(podman, "pm4").context.fleet.containers[0]
    host = LocalHost("n")
    first = wait_at_engine(host, [it], None, time.time(), 10, 5)
    threading.Timer(1, podman.run, ("kill", "pm4")).start()
    began = time.monotonic()
    second = wait_at_engine(host, [it], known_from(first, "states"), first["since"], 20, 5)
    assert time.monotonic() - began < 10
    assert (first["states"]["pm4"]["status"], second["states"]["pm4"]["status"]) == ("running", "exited")
    assert second["samples"][-1]["mem_available"] > 0
