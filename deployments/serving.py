"""The Prefect server in use: whose it is, whether it can be used. Nothing here starts anything."""

import base64
import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

from deployments.contact import CONTACT_S, LOCAL, OFFLINE, TRY_EVERY_S, NoServer, check_own, why_silent
from deployments.errors import NO_SERVER, CommandError
from deployments.own_server import own_server
from deployments.processes import alive
from deployments.state import LocalState, Proc, auth_string, read_state, state_dir, use_server


def use_answering_server() -> None:
    """Points this process at the server in use and sees that it answers. Starts nothing. Raises CommandError."""
    if own_server():
        return check_own(os.environ["PREFECT_API_URL"])
    state = read_state()
    if state is None:
        raise CommandError(f"no Prefect server was started on this machine yet. What to do: {LOCAL}; {OFFLINE}", NO_SERVER)
    why = why_unhealthy(state, CONTACT_S)
    if why:
        raise unusable(state, why)
    return use_server(state)


def unusable(state: LocalState, why: str) -> NoServer:
    """What to do about the local server: one that runs and is not usable has to be stopped first."""
    proc = find(state, "server")
    do = f"stop it (pid {proc.pid}) with `gpu-runbooks down`, then start it with `gpu-runbooks up`" if proc else LOCAL
    return NoServer(state.api, f"{why} (its log: {server_log()})", do)


def server_log() -> Path:
    return state_dir() / "logs/server.log"


def use_running_server() -> None:
    """Points this process at the server that `up` started, or leaves it at the operator's own. Starts nothing.

    For what stays: it may begin while the server is down. Raises CommandError where there never was one.
    """
    if own_server():
        return
    state = read_state()
    if state is None:
        raise CommandError(f"no Prefect server: {LOCAL}, or set PREFECT_API_URL", NO_SERVER)
    use_server(state)


def find(state: LocalState | None, name: str) -> Proc | None:
    for proc in state.processes if state else ():
        if proc.name == name and alive(proc):
            return proc
    return None


def why_unhealthy(state: LocalState, limit_s: float) -> str:
    """Why our server cannot be used, looked at again for `limit_s`; "" if it can."""
    deadline = time.monotonic() + limit_s
    while (left := deadline - time.monotonic()) > 0:
        if healthy(state, max(left, TRY_EVERY_S)):
            return ""
        if not find(state, "server"):
            break
        time.sleep(min(TRY_EVERY_S, max(left, 0)))
    if not find(state, "server"):
        return "is not running"
    why = why_silent(state.api, TRY_EVERY_S)
    return why or f"does not accept the password in {state_dir() / 'auth.json'}, or cannot use its database"


def healthy(state: LocalState, timeout_s: float = 5.0) -> bool:
    """True if our server answers there, with its database: another one does not know our password."""
    token = base64.b64encode(auth_string().encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - our own loopback address
        f"{state.api}/flows/count",
        data=b"{}",
        headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as r:  # noqa: S310
            return bool(r.status == 200)
    except (OSError, urllib.error.URLError, ValueError, http.client.HTTPException):
        return False


def describe() -> dict[str, object]:
    """What runs, for `status`."""
    state = read_state()
    procs = {name: bool(find(state, name)) for name in ("server", "worker", "reaper", "gateway")}
    return {
        "ui": state.ui if state else None,
        "processes": procs,
        "state_dir": str(state_dir()),
        "logs": str(Path(state_dir()) / "logs"),
    }
