"""`gpu-runbooks up` and `down`: the commands around deployments/server.py, and how its processes are stopped."""

import argparse
import json
import os
import signal
import sys
import time

from deployments.cli.login import login_lines
from deployments.cli.missing_secrets import warn_missing
from deployments.contact import shown
from deployments.gateway.local import start_beside
from deployments.gateway.settings import token_file
from deployments.paths import absolute
from deployments.pool import POOL
from deployments.processes import stop
from deployments.registered import read_mark
from deployments.server import ensure_up
from deployments.serving import find, healthy
from deployments.state import LocalState, only_one, read_state, state_dir, use_server, write_state
from runbooks.core.config import ConfigError

DRAIN_LIMIT_S = 600.0


def stop_all(drain: bool = True) -> list[str]:
    """Stops gateway, reaper, worker, server, in this order. With `drain`, first waits for actions in progress to end."""
    with only_one():
        state = read_state()
        if state is None:
            return []
        gateway = find(state, "gateway")
        if gateway:
            os.kill(gateway.pid, signal.SIGTERM)  # takes no alert from now on; its runs go on to their end
        if drain and healthy(state):
            drain_runs(state)
        stopped = []
        for name in ("gateway", "reaper", "worker", "server"):
            proc = gateway if name == "gateway" else find(state, name)
            if proc and stop(proc):
                stopped.append(name)
        write_state(state.model_copy(update={"processes": ()}))
        return stopped


def drain_runs(state: LocalState) -> None:
    """Lets no new run begin and waits until those that run have ended, ten minutes at most."""
    use_server(state)
    from flows.pool import pause_pool
    from flows.store import running_runs

    pause_pool(POOL, True)  # `up` lets workers take runs again
    deadline = time.monotonic() + DRAIN_LIMIT_S
    while (busy := running_runs()) and time.monotonic() < deadline:
        print(f"waiting for {len(busy)} run(s) to end: {', '.join(busy)}", file=sys.stderr)
        time.sleep(2)


def cmd_up(ns: argparse.Namespace) -> int:
    """`gpu-runbooks up`."""
    fleet, policy = _checked(ns)
    state = ensure_up(fleet=fleet, policy=policy)
    if fleet:
        from flows.config import load_fleet

        warn_missing(load_fleet(fleet))
    if state is None:
        from deployments.register import register_all

        count = register_all(fleet, policy)
        _publish_page(fleet)
        print(f"registered {count} deployments on {shown(os.environ['PREFECT_API_URL'])}")
        print(f"start workers and a reaper yourself: `prefect worker start --pool {POOL}`, `python -m deployments.reaper`")
        return 0
    gateway = start_beside(ns, fleet, policy) if getattr(ns, "gateway", False) else ""
    from flows.artifacts import addresses
    from flows.ui_pages import START, UiPage, ui_url

    _publish_page(fleet or read_mark().get("fleet") or None)
    ui, start = ui_url(UiPage.HOME), addresses([START])[START]
    if getattr(ns, "json", False):
        says = {"ui": ui, "start": start, "api": state.api, "state": str(state_dir())} | ({"gateway": gateway} if gateway else {})
        print(json.dumps(says))
    else:
        print(f"start:  {start}  (what waits, what is wrong now, how to run something)")
        print("\n".join([*login_lines(ui, typed=sys.stdout.isatty()), f"logs:   {state_dir() / 'logs'}"]))
        if gateway:
            print(f"alerts: {gateway}/alerts/…  (bearer token in {token_file()})")
    return 0


def _publish_page(fleet: str | None) -> None:
    """The page to begin with is there from the first moment."""
    from flows.config import load_fleet
    from flows.sweep.board import publish_board

    try:
        publish_board(load_fleet(fleet))
    except ConfigError as e:  # the file of an earlier `up` is gone or broken meanwhile: the runs will say so
        print(f"the start page could not be created: {e}", file=sys.stderr)


def _checked(ns: argparse.Namespace) -> tuple[str | None, str | None]:
    """Absolute paths of the files that the forms are to be filled with. Raises ConfigError if one cannot be used."""
    from flows.config import load_fleet, load_policy

    found = [absolute(f) for f in (ns.fleet, ns.policy)]
    if found[0]:
        load_fleet(found[0])
    if found[1]:
        load_policy(found[1])
    if alerts := absolute(getattr(ns, "alerts", None)):
        from deployments.gateway.files import load_alerts

        load_alerts(alerts)
    return found[0], found[1]


def cmd_down(ns: argparse.Namespace) -> int:
    """`gpu-runbooks down`: lets actions in progress end, then stops what `up` started."""
    now = bool(getattr(ns, "now", False))
    _end_killed_rehearsals(now)
    stopped = stop_all(drain=not now)
    if getattr(ns, "json", False):
        print(json.dumps({"stopped": stopped}))
    else:
        print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    return 0


def _end_killed_rehearsals(now: bool) -> None:
    """Before the server is stopped: their questions are answered on it. `now`: without waiting for that."""
    from deployments.lab.killed import take_away

    state = read_state()
    server = not now and state is not None and healthy(state)
    if server and state is not None:
        use_server(state)
    take_away(server)
