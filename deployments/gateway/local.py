"""The gateway beside the local server: started by `up --gateway`, stopped by `down`."""

import argparse
import sys
import time
import urllib.error
import urllib.request

from deployments.errors import CommandError
from deployments.gateway.settings import own_token, secrets_from_environment
from deployments.paths import absolute
from deployments.processes import alive
from deployments.registered import read_mark
from deployments.server import start_process
from deployments.serving import find
from deployments.state import only_one, read_state, state_dir, write_state

START_LIMIT_S = 60.0


def start_beside(ns: argparse.Namespace, fleet: str | None, policy: str | None) -> str:
    """Starts the gateway on loopback unless it runs already; returns its address. Raises CommandError."""
    if not secrets_from_environment().any:
        own_token()
    argv = [sys.executable, "-m", "deployments.cli.main", "gateway", "--port", str(ns.gateway_port)]
    alerts = absolute(ns.alerts)
    before = read_mark()  # the files that `up` was given an earlier time
    fleet, policy = fleet or before.get("fleet"), policy or before.get("policy")
    for option, value in (("--fleet", fleet), ("--policy", policy), ("--alerts", alerts)):
        argv += [option, value] if value else []
    with only_one():
        state = read_state()
        if state is None:
            raise CommandError("the local server is not up")
        proc = start_process(state, "gateway", argv)
        others = tuple(p for p in state.processes if p.name != "gateway")
        write_state(state.model_copy(update={"processes": (*others, proc)}))
    url = f"http://127.0.0.1:{ns.gateway_port}"
    deadline = time.monotonic() + START_LIMIT_S
    while not _answers(url):
        running = find(read_state(), "gateway")
        if running is None or not alive(running) or time.monotonic() > deadline:
            raise CommandError(f"the gateway did not start; its log: {state_dir() / 'logs/gateway.log'}", 3)
        time.sleep(0.1)
    return url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as r:  # noqa: S310 - our own loopback address
            return bool(r.status == 200)
    except (OSError, urllib.error.URLError):
        return False
