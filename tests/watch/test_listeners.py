"""The watch's listeners over a real SSH connection: a death is heard at once, and after a cut line nothing was missed."""

import queue
import time
from pathlib import Path
from typing import Any

from deployments.lab.sshd import Sshd
from deployments.watch.listeners import EngineListener
from runbooks.core.containers_config import ManagedContainer
from tests.support.docker_engine import Engine, docker_engine


def heard(box: "queue.Queue[tuple[str, Any]]", what: str, seconds: float = 20) -> Any:
    """The next thing of that kind."""
    end = time.monotonic() + seconds
    while True:
        kind, data = box.get(timeout=max(0.01, end - time.monotonic()))
        if kind == what:
            return data


def status(data: Any) -> str:
    return str(data[1]["states"]["far1"]["status"])


def test_over_ssh(tmp_path: Path) -> None:
    with Sshd(tmp_path, "far") as sshd, docker_engine() as engine:
        engine.create("far1", "sleep", "infinity")
        box: queue.Queue[tuple[str, Any]] = queue.Queue()
        it = ManagedContainer(name="far1", node="far", engine=engine.argv, socket=str(engine.socket), match="sleep")
        listener = EngineListener(sshd.node(), [it], lambda what, data: box.put((what, data)))
        listener.start()
        first = heard(box, "engine")
        assert status(first) == "running"
        assert first[1]["states"]["far1"]["app"] is True
        time.sleep(1)
        began = time.monotonic()
        engine.run("kill", "far1")
        assert status(heard(box, "engine")) == "exited"
        assert time.monotonic() - began < 15  # it does not wait for its next look
        cut_and_lost(engine, sshd, box)
        listener.ending.set()


def cut_and_lost(engine: Engine, sshd: Sshd, box: "queue.Queue[tuple[str, Any]]") -> None:
    sshd.cut()
    heard(box, "unreachable")
    engine.run("start", "far1")  # while nobody listens
    while status(heard(box, "engine")) != "running":
        pass
