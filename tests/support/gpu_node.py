"""A node with stub GPUs and real processes, for tests of diagnostics and remediation."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deployments.lab import train_selfplay
from deployments.lab.gpu import StubDriver
from runbooks.core.fleet import Fleet, Job, Leader, Node
from runbooks.core.gpu_set import Gpu
from runbooks.core.plan import Step
from runbooks.core.reading import Known
from runbooks.gpu.evidence import Evidence, Process
from tasks.context import Context
from tasks.gpu.processes import read_processes
from tasks.gpu.read import gather_zombie_gpu
from tasks.transport.base import Host
from tasks.transport.local import LocalHost

JOB = Path(train_selfplay.__file__)
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
LIMITS = {"window_s": 0.6, "samples": 4}


def context(
    driver: StubDriver | None = None,
    jobs: tuple[Job, ...] = (),
    leader: Leader | None = None,
    local: bool = True,
    host: Host | None = None,
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Context:
    """A run on this machine. `local=False`: the same machine, read the way a node behind SSH is."""
    labels = (driver.labels() if driver else {}) | (labels or {})
    node = Node(name="node-a", local=True, labels=labels) if local else Node(name="node-a", host="h", labels=labels)
    fleet = Fleet(name="test", nodes=(node,), jobs=jobs, leader=leader)
    one = host or LocalHost("node-a")
    return Context(fleet=fleet, target="node-a", open_host=lambda _: one, limits=LIMITS, **more)


def tagged(tag: str) -> str:
    """The tag on this test process's own command lines: tests of other files run beside it, on the same machine."""
    return f"{tag}-{os.getpid()}"


def job(tag: str, **fields: Any) -> Job:
    """A job whose processes carry `--tag` with this tag, and were started by this test process."""
    match = rf"train_selfplay\.py .*--tag {tagged(tag)}\b"
    return Job(**{"name": "selfplay", "match": match, "warm_up_s": 0, **fields})


@contextmanager
def running(*args: str, tag: str = "t", stopped: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """A real job process in its own session; it and its session are ended after."""
    argv = [sys.executable, str(JOB), *args, "--tag", tagged(tag)]
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert p.stdout is not None
        assert p.stdout.readline() == "ready\n"
        if stopped:
            p.send_signal(signal.SIGSTOP)
            wait_state(p.pid, "T")
        yield p
    finally:
        with suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait(10)


ALIVE = ("R", "S", "D")  # neither stopped nor dead: a process that said it is ready may not sleep yet


def state(pid: int) -> str:
    """State letter from /proc, "" when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def wait_state(pid: int, states: str, within_s: float = 10.0) -> None:
    """Wait until the process is in one of these states ("-": gone)."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if (state(pid) or "-") in states:
            return
        time.sleep(0.02)
    raise AssertionError(f"pid {pid} is in state {state(pid) or 'gone'}, not {states}")


def look(*pids: int, jobs: tuple[Job, ...] = (), window_s: float = 0.5) -> dict[int, Process]:
    """What the process probe says, by pid."""
    found = read_processes(context(), window_s, pids, jobs).processes
    assert isinstance(found, Known), found
    return {p.pid: p for p in found.value}


def gather(ctx: Context) -> Evidence:
    """The whole evidence."""
    return gather_zombie_gpu(ctx)


def only_gpu(evidence: Evidence) -> Gpu:
    """The one GPU that was read."""
    assert isinstance(evidence.gpus, Known), evidence.gpus
    (gpu,) = evidence.gpus.value.gpus
    return gpu


def identity(pid: int) -> dict[str, Any]:
    """A process as a plan lists it."""
    p = look(pid, window_s=0)[pid]
    return {"pid": p.pid, "start_ticks": p.start_ticks, "command": p.command, "uid": p.uid}


def terminate_step(*pids: int, freed: int = 0, uuids: tuple[str, ...] = (), grace_s: float = 2, **change: Any) -> Step:
    """A terminate-processes step for these processes of one session."""
    first = look(pids[0], window_s=0)[pids[0]]
    args = {
        "boot_id": BOOT, "processes": [identity(p) for p in pids], "cgroup": first.cgroup, "sid": first.sid,
        "gpu_uuids": list(uuids), "expect_freed_bytes": freed, "grace_s": grace_s,
    }  # fmt: skip
    return Step(kind="terminate-processes", owner="node-a", args=args | change, commands=("kill",), effect="gone")
