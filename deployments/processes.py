"""The processes that `up` starts: told apart from others by pid and start time, never by name."""

import os
import signal
import time
from pathlib import Path

from deployments.state import Proc
from tasks.this_machine import start_ticks


def alive(proc: Proc) -> bool:
    return start_ticks(proc.pid) == proc.start_ticks


def age_s(proc: Proc) -> float:
    """How long it has been running, seconds."""
    up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return up - proc.start_ticks / os.sysconf("SC_CLK_TCK")


def stop(proc: Proc, limit_s: float = 10.0) -> bool:
    """SIGTERM to the recorded process only, then SIGKILL. True if it is gone."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if not alive(proc):
            return True
        try:
            os.kill(proc.pid, sig)
        except ProcessLookupError:
            return True
        deadline = time.monotonic() + limit_s
        while alive(proc) and time.monotonic() < deadline:
            time.sleep(0.05)
    return not alive(proc)
