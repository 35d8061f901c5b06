"""Starts, stops and describes the local Prefect server, its worker and the reaper."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

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

POOL = "gpu-runbooks"
START_LIMIT_S = 90.0
DRAIN_LIMIT_S = 600.0


def own_server() -> bool:
    """True if the operator has a Prefect server of their own (PREFECT_API_URL is set and not ours)."""
    url = os.environ.get("PREFECT_API_URL")
    state = read_state()
    return bool(url) and not (state and url == state.api)


def ensure_up(say: bool = True) -> LocalState | None:
    """Starts what is not running, registers the deployments, points this process at the server.

    Returns the local state, or None with a server of the operator's own. Raises RuntimeError that says what failed
    and where the log is.
    """
    if own_server():
        return None
    with only_one():
        state = _server(say)
        use_server(state)
        registered = _register_if_changed(state)
        procs = [p for p in state.processes if p.name == "server"]
        procs += [_process(state, "worker", _worker_argv()), _process(state, "reaper", _reaper_argv())]
        state = state.model_copy(update={"processes": tuple(procs)})
        write_state(state)
    if say and registered:
        print(f"registered {registered} deployments", file=sys.stderr)
    return state


def _worker_argv() -> list[str]:
    return [*_prefect(), "worker", "start", "--pool", POOL, "--type", "process", "--limit", "8"]


def _reaper_argv() -> list[str]:
    return [sys.executable, "-m", "deployments.reaper"]


def _prefect() -> list[str]:
    return [sys.executable, "-m", "prefect"]


def _alive(proc: Proc) -> bool:
    return start_ticks(proc.pid) == proc.start_ticks


def _find(state: LocalState | None, name: str) -> Proc | None:
    for proc in state.processes if state else ():
        if proc.name == name and _alive(proc):
            return proc
    return None


def _spawn(name: str, argv: list[str], env: dict[str, str]) -> Proc:
    logs = state_dir() / "logs"
    logs.mkdir(exist_ok=True)
    log = (logs / f"{name}.log").open("ab")
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


def _process(state: LocalState, name: str, argv: list[str]) -> Proc:
    env = prefect_env(state) | {"PREFECT_WORKER_QUERY_SECONDS": "2", "PREFECT_WORKER_PREFETCH_SECONDS": "5"}
    return _find(state, name) or _spawn(name, argv, env)


def _server(say: bool) -> LocalState:
    old = read_state()
    proc = _find(old, "server")
    if old and proc:
        _wait_healthy(old, proc)
        return old
    port = _port(old)
    state = LocalState(port=port, api=f"http://127.0.0.1:{port}/api", ui=f"http://127.0.0.1:{port}")
    if say:
        print("starting the local Prefect server (the first time takes about 20 s) …", file=sys.stderr)
    env = prefect_env(state) | {"PREFECT_SERVER_API_AUTH_STRING": auth_string()}
    argv = [*_prefect(), "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    proc = _spawn("server", argv, env)
    # an old worker or reaper of a dead server is kept: they reconnect when the port is the same
    kept = tuple(p for p in (old.processes if old and old.port == port else ()) if p.name != "server" and _alive(p))
    if old and old.port != port:
        for p in old.processes:
            _stop(p)
    state = state.model_copy(update={"processes": (proc, *kept)})
    write_state(state)
    _wait_healthy(state, proc)
    return state


def _port(old: LocalState | None) -> int:
    for port in ([old.port] if old else []) + [4200]:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait_healthy(state: LocalState, proc: Proc) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if _healthy(state):
            return
        if not _alive(proc):
            raise RuntimeError(f"the Prefect server ended while starting; its log: {state_dir() / 'logs/server.log'}")
        time.sleep(0.1)
    raise RuntimeError(
        f"the Prefect server did not answer in {START_LIMIT_S:.0f} s; its log: {state_dir() / 'logs/server.log'}"
    )


def _healthy(state: LocalState) -> bool:
    try:
        with urllib.request.urlopen(f"{state.api}/ready", timeout=2) as r:  # noqa: S310 - our own loopback address
            return bool(r.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def _register_if_changed(state: LocalState) -> int:
    """Registers deployments unless the code that describes them is unchanged since the last time."""
    from deployments.register import fingerprint, register_all

    mark = state_dir() / "registered"
    want = f"{state.port}:{fingerprint()}"
    if mark.is_file() and mark.read_text(encoding="utf-8") == want and not os.environ.get("GPU_RUNBOOKS_REGISTER"):
        return 0
    count = register_all()
    mark.write_text(want, encoding="utf-8")
    return count


def _stop(proc: Proc, limit_s: float = 10.0) -> bool:
    """SIGTERM to the recorded process only, then SIGKILL. True if it is gone."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if not _alive(proc):
            return True
        try:
            os.kill(proc.pid, sig)
        except ProcessLookupError:
            return True
        deadline = time.monotonic() + limit_s
        while _alive(proc) and time.monotonic() < deadline:
            time.sleep(0.05)
    return not _alive(proc)


def stop_all(drain: bool = True) -> list[str]:
    """Stops reaper, worker, server, in this order. With `drain`, first waits for acts in progress to end."""
    with only_one():
        state = read_state()
        if state is None:
            return []
        if drain and _healthy(state):
            _drain(state)
        stopped = []
        for name in ("reaper", "worker", "server"):
            proc = _find(state, name)
            if proc and _stop(proc):
                stopped.append(name)
        write_state(state.model_copy(update={"processes": ()}))
        return stopped


def _drain(state: LocalState) -> None:
    use_server(state)
    from flows.store import pause_pool, running_runs

    pause_pool(POOL, True)
    try:
        deadline = time.monotonic() + DRAIN_LIMIT_S
        while (busy := running_runs()) and time.monotonic() < deadline:
            print(f"waiting for {len(busy)} run(s) to end: {', '.join(busy)}", file=sys.stderr)
            time.sleep(2)
    finally:
        pause_pool(POOL, False)


def cmd_up(ns: argparse.Namespace) -> int:
    """`gpu-runbooks up`."""
    state = ensure_up()
    if state is None:
        from deployments.register import register_all

        count = register_all()
        print(
            f"registered {count} deployments on {os.environ['PREFECT_API_URL']}; start workers and the reaper there yourself"
        )
        return 0
    if getattr(ns, "json", False):
        print(json.dumps({"ui": state.ui, "api": state.api, "state": str(state_dir())}))
    else:
        print(f"UI: {state.ui}  (password in {state_dir() / 'auth.json'})\nlogs: {state_dir() / 'logs'}")
    return 0


def cmd_down(ns: argparse.Namespace) -> int:
    """`gpu-runbooks down`: lets acts in progress end, then stops what `up` started."""
    stopped = stop_all(drain=not getattr(ns, "now", False))
    if getattr(ns, "json", False):
        print(json.dumps({"stopped": stopped}))
    else:
        print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    return 0


def describe() -> dict[str, object]:
    """What runs, for `status`."""
    state = read_state()
    procs = {name: bool(_find(state, name)) for name in ("server", "worker", "reaper")}
    return {
        "ui": state.ui if state else None,
        "api_answers": bool(state and _healthy(state)),
        "processes": procs,
        "state_dir": str(state_dir()),
        "logs": str(Path(state_dir()) / "logs"),
    }
