"""Forks one process per run from a warm one: no interpreter and no imports to wait for, and a crash ends that run alone.

Reads one JSON job a line on stdin ({"run", "slug"}); writes one line when it has forked and one when a child has ended.
Ends when stdin does; children go on. Clients, threads and loops are made in the children only.
"""

import contextlib
import gc
import json
import os
import select
import signal
import sys
from importlib import import_module
from typing import Any

from flows.specs import entrypoint
from tasks.this_machine import start_ticks

WARM = (
    "prefect.artifacts",
    "prefect.events.clients",
    "prefect.events.utilities",
    "prefect.client.orchestration",
    "prefect.flow_engine",
    "prefect.task_engine",
    "prefect._internal.observers",
    "prefect._internal._observation_delivery",
    "prefect.utilities.visualization",
    "graphviz",
    "anyio._backends._asyncio",
    "encodings.idna",
    "paramiko",
    "pwd",
    "rich._emoji_codes",
    "flows.launch",
    "flows.engine.entry",
    "deployments.register",
)
LIKE_SECRETS = "https://example.org/?page=2 and name=value"  # nothing in it is secret, and most patterns look twice
POLL_S = 0.5  # SIGCHLD wakes it up earlier


def warm_up() -> None:
    """Imports all that a run needs. Nothing here may start a thread or open a connection."""
    from deployments.register import load
    from flows import store
    from flows.launch import run_settings
    from flows.specs import SLUGS, load_spec
    from runbooks.core.knowledge import load_runbook
    from tasks.installation import installation_redactor

    for name in WARM:
        with contextlib.suppress(ImportError):
            import_module(name)
    for slug in SLUGS:
        try:
            load_spec(slug)
            load_runbook(slug)
            load(entrypoint(slug))
        except Exception as e:  # its own runs will say so; the others are not to suffer from it
            print(f"{slug} cannot be made warm: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
    _warm_channels()
    with store.quick():  # the settings that a run needs are built once, here
        pass
    with run_settings(), store.quick():
        pass
    installation_redactor().text(LIKE_SECRETS)  # its patterns are compiled once, here
    gc.collect()
    gc.freeze()  # what is shared stays shared


def _warm_channels() -> None:
    """Where people are to be told: what that needs."""
    from flows.notify.notify_file import load_notifications
    from tasks.notify.send import warm

    try:
        if load_notifications():
            warm()
    except Exception as e:  # the runs will say so
        print(f"notifications cannot be made warm: {type(e).__name__}: {e}", file=sys.stderr, flush=True)


def main() -> int:
    """Serves until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the gateway: it drains
    out = os.dup(1)
    os.dup2(2, 1)  # nothing but answers goes to the gateway
    warm_up()
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_w, False)
    os.set_blocking(wake_r, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    _say(out, {"ready": os.getpid()})
    children: dict[int, str] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0, wake_r], [], [], POLL_S)
        with contextlib.suppress(BlockingIOError):
            os.read(wake_r, 4096)
        _reap(children, out)
        if 0 not in ready:
            continue
        data = os.read(0, 65536)
        if not data:
            return 0
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            job = json.loads(line)
            pid = _fork(job, (out, wake_r, wake_w))
            children[pid] = job["run"]
            _say(out, {"forked": job["run"], "pid": pid, "start": start_ticks(pid) or 0})


def _say(out: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the gateway is gone: its runs go on
        os.write(out, (json.dumps(what) + "\n").encode())


def _reap(children: dict[int, str], out: int) -> None:
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            _say(out, {"ended": children.pop(pid), "pid": pid, "status": status})


def _fork(job: dict[str, Any], close: tuple[int, ...]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()  # a signal to the gateway's group is not for the run
        signal.set_wakeup_fd(-1)
        for s in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(s, signal.SIG_DFL)
        for fd in close:
            os.close(fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _run(job)
        code = 0
    except BaseException as e:
        print(f"run {job.get('run')}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)
    raise AssertionError  # os._exit never returns


def _run(job: dict[str, Any]) -> None:
    from deployments.register import load
    from flows import store
    from flows.engine.stopping import settle
    from flows.launch import run_here

    run = store.read_run(job["run"])
    if run.state is None or not run.state.is_pending():
        if run.start_time is None:
            settle(run.id)  # cancelled before it began
        return  # somebody else has it
    run_here(load(entrypoint(job["slug"])), run)


if __name__ == "__main__":
    sys.exit(main())
