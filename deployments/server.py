"""Starts, stops and describes the local Prefect server, its worker and the reaper."""

import os
import random
import subprocess
import sys
import time

from deployments.contact import CONTACT_S, check_own
from deployments.errors import CommandError
from deployments.own_server import own_server
from deployments.pool import POOL
from deployments.ports import is_free
from deployments.processes import age_s, alive, stop
from deployments.retention import SERVER_ENV
from deployments.serving import find, healthy, server_log, unusable, why_unhealthy
from deployments.state import (
    LocalState,
    Proc,
    auth_string,
    only_one,
    prefect_env,
    read_state,
    state_dir,
    use_server,
    write_state,
)
from tasks.this_machine import start_ticks

START_LIMIT_S = 90.0
OLD_PORT_LIMIT_S = 5.0
PORTS = range(4201, 4900)
PORT_TRIES = 3


def ensure_up(say: bool = True, fleet: str | None = None, policy: str | None = None) -> LocalState | None:
    """Starts what is not running, registers the deployments, points this process at the server.

    Returns the local state, or None with a server of the operator's own. Raises CommandError that says what failed
    and where the log is. `fleet`, `policy`: what the forms in the UI are filled with; None: as before.
    """
    if own_server():
        check_own(os.environ["PREFECT_API_URL"])
        return None
    with only_one():
        state = start_server(say)
        use_server(state)
        from deployments.registered import register_if_changed

        registered = register_if_changed(state, fleet, policy)
        procs = [p for p in state.processes if p.name == "server" or (p.name == "gateway" and alive(p))]
        if not all(find(state, name) for name in ("worker", "reaper")):
            _let_workers_take_runs()
        procs += [start_process(state, "worker", worker_argv()), start_process(state, "reaper", reaper_argv())]
        state = state.model_copy(update={"processes": tuple(procs)})
        write_state(state)
    if say and registered:
        print(f"registered {registered} deployments", file=sys.stderr)
    return state


def ensure_server() -> None:
    """Like `ensure_up`, for what only reads or sets a switch: neither worker nor reaper is started for it."""
    if own_server():
        check_own(os.environ["PREFECT_API_URL"])
        return
    with only_one():
        use_server(start_server(say=False))


def _let_workers_take_runs() -> None:
    from flows.pool import pause_pool

    pause_pool(POOL, False)


def worker_argv() -> list[str]:
    return [*_prefect(), "worker", "start", "--pool", POOL, "--type", "process", "--limit", "8"]


def reaper_argv() -> list[str]:
    return [sys.executable, "-m", "deployments.reaper"]


def _prefect() -> list[str]:
    return [sys.executable, "-m", "prefect"]


def _spawn(name: str, argv: list[str], env: dict[str, str]) -> Proc:
    logs = state_dir() / "logs"
    logs.mkdir(exist_ok=True)
    log = os.fdopen(os.open(logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=os.environ | env,
        cwd=state_dir(),
    )
    return Proc(name=name, pid=child.pid, start_ticks=start_ticks(child.pid) or 0)


def start_process(state: LocalState, name: str, argv: list[str]) -> Proc:
    env = prefect_env(state) | {"PREFECT_WORKER_QUERY_SECONDS": "2", "PREFECT_WORKER_PREFETCH_SECONDS": "5"}
    return find(state, name) or _spawn(name, argv, env)


def start_server(say: bool) -> LocalState:
    """The running local server, or a new one: on the old port if it is free, never on one that another took."""
    old = read_state()
    proc = find(old, "server")
    if old and proc:
        young = START_LIMIT_S - age_s(proc)  # somebody is starting it, and was ended before it answered
        why = why_unhealthy(old, max(CONTACT_S, young))
        if why:
            raise unusable(old, why)
        return old
    if say:
        print("starting the local Prefect server (the first time takes about 20 s) …", file=sys.stderr)
    for _ in range(PORT_TRIES - 1):
        state, proc = _start_on(_port(old), old)
        try:
            _wait_healthy(state, proc)
            return state
        except _EndedEarly:
            old = state  # most likely somebody else took the port meanwhile
    state, proc = _start_on(_port(None), old)
    _wait_healthy(state, proc)
    return state


def _start_on(port: int, old: LocalState | None) -> tuple[LocalState, Proc]:
    """Starts the server; worker and reaper of a dead one are kept if the port is the same: they reconnect."""
    state = LocalState(port=port, api=f"http://127.0.0.1:{port}/api", ui=f"http://127.0.0.1:{port}")
    env = prefect_env(state) | SERVER_ENV | {"PREFECT_SERVER_API_AUTH_STRING": auth_string()}
    proc = _spawn("server", [*_prefect(), "server", "start", "--host", "127.0.0.1", "--port", str(port)], env)
    others = [p for p in (old.processes if old else ()) if p.name != "server" and alive(p)]
    if old and old.port != port:
        for p in others:
            stop(p)
        others = []
    state = state.model_copy(update={"processes": (proc, *others)})
    write_state(state)
    return state, proc


class _EndedEarly(CommandError):
    """The server ended before it answered."""


def _port(old: LocalState | None) -> int:
    """The port of last time, else 4200, else one of the hundreds above it.

    Never one of the kernel's ephemeral range: while the server is down, a client that knocks there can be given
    that very port as its own and then holds it.
    """
    if old and _free_soon(old.port):
        return old.port
    others = list(PORTS)
    random.shuffle(others)
    for port in [4200, *others]:
        if is_free(port):
            return port
    raise CommandError(f"no free port between {PORTS.start} and {PORTS.stop - 1}", 3)


def _free_soon(port: int) -> bool:
    deadline = time.monotonic() + OLD_PORT_LIMIT_S
    while not is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _wait_healthy(state: LocalState, proc: Proc) -> None:
    deadline, log = time.monotonic() + START_LIMIT_S, server_log()
    while time.monotonic() < deadline:
        if not alive(proc):
            raise _EndedEarly(f"the Prefect server ended while starting; its log: {log}", 3)
        if healthy(state):
            return
        time.sleep(0.1)
    raise CommandError(f"the Prefect server did not answer in {START_LIMIT_S:.0f} s; its log: {log}", 3)
