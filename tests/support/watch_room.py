"""`gpu-runbooks watch` as a process of its own, on the rig's server, over one real engine."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flows import store
from tests.faults.real import RealWorld
from tests.support.docker_engine import Engine
from tests.support.engine_rig import REPO, Rig

ALLOWS_25 = {"deaths_to_escalate": 25, "backoff_base_s": 0, "young_life_s": 1, "join_s": 90}
KINDS = ("recreate-container", "restart-application", "start-engine", "remount-fuse")


def fleet_of(engine: Engine, name: str, limits: dict[str, Any] | None = None, ray: dict[str, Any] | None = None,
             others: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:  # fmt: skip
    """A fleet file with a container on this machine, and `others` like it."""
    box = {
        "name": name, "node": "n", "engine": list(engine.argv), "socket": str(engine.socket),
        "daemon_pidfile": str(engine.pidfile), "disks": [str(engine.folder)],
        "daemon_start": [str(engine.start_script())],
    }  # fmt: skip
    return {
        "nodes": [{"name": "n", "local": True}],
        "containers": [box | fields | {"name": n} for n in (name, *others)],
        "limits": {"container-death": limits or {}},
    } | ({"ray": ray} if ray else {})


class WatchRoom:
    """The watch of one world."""

    def __init__(self, rig: Rig, world: RealWorld) -> None:
        self.rig, self.world, self.log = rig, world, world.folder / "watch.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, mode: str = "auto") -> None:
        """Starts it and waits until it watches."""
        seen = self.log.read_text().count("watching") if self.log.exists() else 0
        argv = [sys.executable, "-m", "deployments.cli.main", "watch", "--mode", mode, "--out", str(self.world.out)]
        argv += ["--fleet", str(self.world.folder / "fleet.yaml"), "--policy", str(self.world.folder / "policy.yaml")]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(argv, cwd=REPO, stdout=out, stderr=out)
        self.wait(lambda: self.log.read_text().count("watching") > seen, 60, "the watch to begin")

    def kill(self) -> None:
        """SIGKILL, as if its machine had no memory left."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def wait(self, until: Any, seconds: float, what: str) -> float:
        """Seconds until `until()` is true; AssertionError with the watch's log."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            with suppress(AssertionError, OSError):
                if until():
                    return time.monotonic() - began
            time.sleep(0.05)
        children = self.rig.home / "children.log"
        more = children.read_text()[-1500:] if children.exists() else ""
        raise AssertionError(f"waited {seconds} s for {what}:\n{self.log.read_text()[-4000:]}\n{more}")

    def outcomes(self) -> list[str]:
        """How its runs ended, oldest first."""
        runs = sorted(self.world.runs(), key=lambda r: str(r.created))
        return [str(store.read_run(r.id).labels.get("outcome")) for r in runs]

    def wait_outcomes(self, number: int, seconds: float = 60) -> list[str]:
        """Until so many runs have ended or wait; how."""

        def enough() -> bool:
            runs = self.world.runs()
            return len(runs) >= number and all(r.state and (r.state.is_final() or r.state.is_paused()) for r in runs)

        self.wait(enough, seconds, f"{number} runs to end")
        return self.outcomes()


@contextmanager
def watch_room(rig: Rig, folder: Path, engine: Engine, name: str, policy: dict[str, Any] | None = None,
               limits: dict[str, Any] | None = None, ray: dict[str, Any] | None = None,
               others: tuple[str, ...] = (), **fields: Any) -> Iterator[WatchRoom]:  # fmt: skip
    """A room whose watch is ended at the end, and whatever the watch had begun as well: others wait for a server without runs."""
    folder.mkdir(parents=True, exist_ok=True)
    fleet = fleet_of(engine, name, limits, ray, others, **fields)
    room = WatchRoom(rig, RealWorld(rig, folder, "container-death", "n", fleet, kinds=KINDS, policy=policy))
    try:
        yield room
    finally:
        if room.process is not None and room.process.poll() is None:
            room.process.kill()
            room.process.wait()
        left = [r for r in room.world.runs() + room.world.acts() if r.state and not (r.state.is_final() or r.state.is_paused())]
        if left:
            room.world.carry_on()
