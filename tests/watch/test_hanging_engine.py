"""An engine that accepts and never answers, drips, or breaks off: looks end in time, say so, and the watch goes on."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.verdict import State
from tasks.container.probes import watch_node
from tasks.container.probes.engine_api import Api
from tasks.context import Context
from tests.support.docker_engine import Engine, docker_engine
from tests.support.engine_rig import Rig
from tests.support.watch_room import ALLOWS_25, fleet_of, watch_room
from tests.tasks.container.world import World, confirmed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{"
ANSWERS = {"silent": (b"", 60.0), "drips": (HEAD + b" " * 40, 0.1), "breaks off": (HEAD, 0.0), "is no engine": (b"hello\n", 0.0)}


@contextmanager
def dumb(path: Path, text: bytes, pause: float) -> Iterator[None]:
    """A socket that gives `text`: the first 90 bytes at once, the rest byte by byte; then `pause` 0 hangs up."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    door.listen(20)

    def serve(caller: socket.socket) -> None:
        with suppress(OSError), caller:
            caller.recv(4096)
            caller.sendall(text[:90])
            for i in range(90, len(text)):
                time.sleep(pause)
                caller.sendall(text[i : i + 1])
            time.sleep(pause)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield
    door.close()


@pytest.mark.parametrize("how", ANSWERS)
def test_a_look_ends_in_its_time(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_node, "LIMIT_S", 0.2)
    ask = {"containers": {"a": "", "b": "x"}}
    with dumb(tmp_path / "s", *ANSWERS[how]):
        began = time.monotonic()
        states, problem = watch_node.look(Api(str(tmp_path / "s")), ask)
        assert time.monotonic() - began < 15
        assert watch_node.usage(Api(str(tmp_path / "s")), "a", time.monotonic() + 0.2) is None
    assert states == {}
    assert problem, "an engine that does not answer well is not a container that is well, or missing"


def test_one_that_crawls_is_not_asked_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes in time, all of them together do not."""
    monkeypatch.setattr(watch_node, "LIMIT_S", 0.5)
    one = b'{"Id": "i", "State": {"Status": "running", "StartedAt": "", "FinishedAt": "", "ExitCode": 0}}'
    text = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(one), one)
    with dumb(tmp_path / "s", text, 0.003):
        began = time.monotonic()
        states, problem = watch_node.look(Api(str(tmp_path / "s")), {"containers": {f"c{i}": "" for i in range(50)}})
        assert time.monotonic() - began < 15, "all of them take more than 20 s"
    assert (states, "too slow" in problem or "did not answer" in problem) == ({}, True)


def test_a_long_command_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon started by hand has the width of a terminal in its environment; its `ps` cuts lines at that."""
    monkeypatch.setenv("COLUMNS", "80")
    with docker_engine() as engine:
        engine.create("worker", "sh", "-c", f": {'x' * 100}; exec sleep 4242")
        engine.run("exec", "-d", "worker", "sh", "-c", f": {'x' * 100} trainer; sleep 4242; true")
        seen = watch_node.state_of(Api(str(engine.socket)), "worker", "trainer", time.monotonic() + 60)
    assert seen["app"] is True


@contextmanager
def stopped(engine: Engine) -> Iterator[None]:
    """The daemon hangs: SIGSTOP, by its own pid."""
    os.kill(engine.pid(), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine.pid(), signal.SIGCONT)


@pytest.fixture
def engines() -> Iterator[tuple[Engine, Engine]]:
    with docker_engine() as one, docker_engine() as other:
        yield one, other


@pytest.mark.soak
def test_container_death_on_a_daemon_that_hangs(engines: tuple[Engine, Engine]) -> None:
    engine, _ = engines
    engine.create("wc", "sleep", "infinity")
    world = World(engine, "wc", match="sleep")
    assert world.judge().state is State.HEALTHY
    with stopped(engine):
        began = time.monotonic()
        found = world.judge()
        assert time.monotonic() - began < 75
        assert confirmed(found) == ["daemon-stuck"]
        world.context = wrong_pidfile(world)
        blind = world.judge()
        assert confirmed(blind) == [], "no process under that pid file proves nothing while something accepts"
        assert [c.slug for c in blind.causes] == ["daemon-stuck"]
    assert found.plans == blind.plans == ()
    assert world.judge().state is State.HEALTHY, "by itself, once it goes on"


def wrong_pidfile(world: World) -> Context:
    """The same, with a fleet file that names another pid file."""
    it = world.context.fleet.containers[0].model_copy(update={"daemon_pidfile": "/run/no-such.pid"})
    return replace(world.context, fleet=world.context.fleet.model_copy(update={"containers": (it,)}))


@pytest.mark.soak
def test_the_watch_goes_on_beside_a_daemon_that_hangs(
    rig: Rig, engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    """Two nodes. One's daemon hangs: the other's container is restored; then the hanging one's, which died meanwhile."""
    hangs, well = engines
    more = fleet_of(well, "wb", match="sleep")["containers"][0] | {"node": "m"}
    hangs.create("wa", "sleep", "infinity")
    well.create("wb", "sleep", "infinity")
    with watch_room(rig, tmp_path, hangs, "wa", limits=ALLOWS_25 | {"steady_s": 0.5}, match="sleep") as room:
        add_node(room.world.folder / "fleet.yaml", more)
        room.start()
        pid, old = int(hangs.inspect("wa")["State"]["Pid"]), hangs.inspect("wa")["Id"]
        with stopped(hangs):
            room.wait(lambda: "wa on n: the engine does not answer" in room.log.read_text(), 60, "the hang to be seen")
            other = well.inspect("wb")["Id"]
            well.run("kill", "wb")
            room.wait(lambda: well.inspect("wb")["Id"] != other, 60, "the other node's to be back")
            os.kill(pid, signal.SIGKILL)
            room.wait(lambda: said_stuck(room.world.reports()), 120, "a report about the hang")
        room.wait(lambda: hangs.inspect("wa")["Id"] != old and hangs.inspect("wa")["State"]["Running"], 120, "it to be back")
        acts = [a for r in room.world.reports() for a in r["acts"] if r["target"] == "n" and a["outcome"] == "done"]
        assert len(acts) <= 1
        assert room.stop() == 0
    assert len(hangs.run("ps", "-q").split()) == len(well.run("ps", "-q").split()) == 1


def add_node(path: Path, container: dict[str, Any]) -> None:
    """A second node with a container of its own in the fleet file."""
    import yaml

    fleet = yaml.safe_load(path.read_text())
    fleet["nodes"].append({"name": "m", "local": True})
    fleet["containers"].append(container)
    path.write_text(yaml.safe_dump(fleet))


def said_stuck(reports: list[dict[str, Any]]) -> bool:
    """True once a run found it, having changed nothing."""
    return any(c["slug"] == "daemon-stuck" for r in reports for c in r["diagnosis"]["causes"] if not r["acts"])
