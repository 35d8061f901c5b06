"""A Prefect server of the tests' own, and processes that run the toy runbook on it and die when told."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from deployments import server, serving
from deployments.cli import up as updown
from deployments.processes import stop
from deployments.state import LocalState, auth_string, read_state, use_server
from flows import store
from tests.faults.fault import arm
from tests.scorecard import notes
from tests.scorecard.plugin import audit_server, server_begins
from tests.support.prefect_database import give_database
from tests.support.toy import write_world

REPO = Path(__file__).resolve().parents[2]
POLICY = """
mode: auto
kinds:
  toy-fix: {mode: auto, cooldown_s: 0, attempts: 1000, approval_ttl_s: 3600}
  toy-restart: {mode: auto, cooldown_s: 0, attempts: 1000}
budget: {nodes: 100, window_s: 3600}
storm: {settle_s: 0.05, alike: 1000}
"""


class Rig:
    """Server, zygote, worlds. One per test process."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.worlds = home / "worlds"
        self.worlds.mkdir(parents=True)
        self.policy = home / "policy.yaml"
        self.policy.write_text(POLICY, encoding="utf-8")
        os.environ["GPU_RUNBOOKS_HOME"] = str(home / "state")
        give_database(home / "state")
        os.environ["TOY_WORLDS"] = str(self.worlds)
        os.environ.pop("PREFECT_API_URL", None)
        self.state = self.start_server()

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Prefect reads its environment once, at import: this makes the test process use the rig's server as well.

        A new thread begins with the settings of the whole process: without them it would start a server of its own.
        """
        from prefect import context
        from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

        before = context.GLOBAL_SETTINGS_CONTEXT
        with temporary_settings({PREFECT_API_URL: self.state.api, PREFECT_API_AUTH_STRING: auth_string()}):
            context.GLOBAL_SETTINGS_CONTEXT = context.get_settings_context()
            try:
                yield
            finally:
                context.GLOBAL_SETTINGS_CONTEXT = before

    def begin(self) -> None:
        """Registers the deployments and warms up the zygote."""
        from deployments.register import register_all
        from tests.support import toy

        toy.install()
        register_all()
        server_begins(str(self.home))
        self.zygote = self._start_zygote()

    def start_server(self) -> LocalState:
        """Starts (or finds) the server and points this process at it."""
        state = server.start_server(say=False)
        use_server(state)
        return state

    def server_pid(self) -> int:
        """Pid of the server that runs now."""
        proc = serving.find(read_state(), "server")
        assert proc is not None
        return proc.pid

    def stop_workers(self) -> None:
        """Stops the worker and the reaper that a command of a test started: they would take the runs of the tests after it."""
        for name in ("worker", "reaper"):
            if proc := serving.find(read_state(), name):
                stop(proc, limit_s=15)

    @contextmanager
    def through(self, api: str) -> Iterator[None]:
        """Meanwhile, runs reach the server at that address."""
        usual = self.zygote
        self.zygote = self._start_zygote(api)
        try:
            yield
        finally:
            end_zygote(self.zygote)
            self.zygote = usual

    def _start_zygote(self, api: str = "") -> "subprocess.Popen[str]":
        env = os.environ | ({"PREFECT_API_URL": api} if api else {}) | {
            "PYTHONPATH": f"{REPO / 'tests/faults/inject'}:{REPO}",
            "PREFECT_LOGGING_TO_API_ENABLED": "false",
            "FAULT": "",
        }
        z = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.home / "zygote.log").open("a"),
            text=True,
            env=env,
            cwd=REPO,
        )
        assert z.stdout is not None
        line = z.stdout.readline()
        assert line, (self.home / "zygote.log").read_text()
        assert json.loads(line)["ready"]
        return z

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        self.zygote.stdin.write(json.dumps(job) + "\n")
        self.zygote.stdin.flush()
        answer = json.loads(self.zygote.stdout.readline())
        assert isinstance(answer, dict)
        return answer

    def start(self, job: dict[str, Any]) -> int:
        """Forks a child for `job`; returns its pid."""
        return int(self._ask(job | {"log": str(self.home / "children.log")})["pid"])

    def start_work(self, *fleets: str | Path, **env: str) -> int:
        """What a worker does, in a child: runs what is scheduled of these fleet files; what other tests left is theirs."""
        return self.start({"do": "work", "fleets": sorted(map(str, fleets)), "env": env})

    def wait(self, pid: int) -> int:
        """Waits for a child; returns the wait status (signal number if it was killed)."""
        return int(self._ask({"do": "wait", "pid": pid})["status"])

    def world(self, **facts: Any) -> "World":
        """A new sick target in a fleet of its own."""
        name = f"n{uuid4().hex[:10]}"
        fleet = self.home / f"{name}.yaml"
        fleet.write_text(f"name: f-{name}\nnodes: [{{name: {name}, local: true}}]\n", encoding="utf-8")
        write_world(self.worlds, name, **({"sick": True, "identity": f"pid of {name}"} | facts))
        return World(self, name, fleet, facts.get("kinds", ()))

    def close(self) -> None:
        """Ends the zygote and the server; by recorded pid."""
        audit_server(str(self.home))
        end_zygote(self.zygote)
        updown.stop_all(drain=False)


def end_zygote(zygote: "subprocess.Popen[str]") -> None:
    """Its children have been waited for."""
    assert zygote.stdin is not None
    zygote.stdin.close()
    try:
        zygote.wait(timeout=10)
    except subprocess.TimeoutExpired:
        zygote.kill()


class World:
    """One toy target and the runs on it."""

    def __init__(self, rig: Rig, name: str, fleet: Path, kinds: Sequence[str] = ()) -> None:
        self.rig, self.name, self.fleet = rig, name, fleet
        self.out = rig.home / "reports" / name
        self.fault = rig.home / f"{name}.fault"
        self.fleets = {str(fleet)}
        self.env = {"STAND_INS": " ".join(kinds)} if kinds else {}
        notes.world(notes.STAND_INS if kinds else "(toy)", self.acts)

    def parameters(self, mode: str, **more: Any) -> dict[str, Any]:
        """Parameters of a run on this world."""
        return {
            "target": self.name,
            "mode": mode,
            "fleet": str(self.fleet),
            "policy": str(self.rig.policy),
            "out": str(self.out),
        } | more

    def start_run(self, mode: str = "auto", **more: Any) -> tuple[int, Path]:
        """Starts a run in a process of its own; returns its pid and the file that will hold the run's id."""
        id_file = self.rig.home / f"{self.name}-{uuid4().hex[:6]}.id"
        parameters = self.parameters(mode, **more)
        self.fleets.add(str(parameters["fleet"]))
        job = {"do": "run", "slug": "zombie-gpu", "parameters": parameters, "id_file": str(id_file)}
        return self.rig.start(job | {"env": {"FAULT": str(self.fault)} | self.env}), id_file

    def run(self, mode: str = "auto", **more: Any) -> str:
        """Runs to the end of the process (however it ends); returns the run's id, "" if it was never created."""
        pid, id_file = self.start_run(mode, **more)
        self.rig.wait(pid)
        return id_file.read_text() if id_file.exists() else ""

    def work(self, fault: bool = False) -> None:
        """What a worker does with the scheduled runs of this world's fleets, to their end (unless a fault ends it)."""
        status = self.rig.wait(self.rig.start_work(*self.fleets, FAULT=str(self.fault) if fault else "", **self.env))
        assert fault or status == 0, f"{status}: {(self.rig.home / 'children.log').read_text()[-3000:]}"

    def arm(self, point: str, sig: str = "SIGKILL", pid: int | None = None, nth: int = 1, whose: str = "the server") -> None:
        """Plants a fault for the next run on this world. `whose`: the process with that `pid`."""
        arm(self.fault, point, sig, pid, nth)
        notes.fault(f"{sig} of {whose if pid else 'the run'}", point)

    def acts(self) -> list[Any]:
        """Action runs on this world."""
        found = store.find_runs([store.ACT_TAG])
        return [a for a in found if a.parameters.get("about", {}).get("target") == self.name]

    def reports(self) -> list[dict[str, Any]]:
        """Every report on this world, newest last."""
        found = [json.loads(p.read_text()) for p in self.out.rglob("2*.json")]
        return sorted(found, key=lambda r: str(r["started_at"]))


def kill_and_wait(pid: int, sig: int = signal.SIGKILL, limit_s: float = 10.0) -> None:
    """Sends `sig` and waits until the process is gone."""
    from tasks.this_machine import start_ticks

    os.kill(pid, sig)
    deadline = time.monotonic() + limit_s
    while start_ticks(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)


def fresh_budget(fleet: str) -> None:
    """The fleet's budget begins now: what other tests changed on this machine, which its nodes are, took places of it."""
    from flows.engine.guards import reset_breaker, trip
    from tasks.context import utc_now

    trip(fleet, "a test", utc_now())
    assert reset_breaker(fleet)
