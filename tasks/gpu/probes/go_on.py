"""Lets listed stopped processes of the node go on (SIGCONT by pidfd), each still the one that was judged and still stopped.

JSON argument: boot_id, processes [{pid, start_ticks, command, uid}], watch_s. Answer: {"refused": why} with nothing
changed, or {"continued": [{pid, outcome, state, looks, stopped, cpu_s, io_bytes, seconds}]}; outcome is "runs",
"stopped again" or "ended"; cpu_s and io_bytes are what it did within `watch_s`, null where that is not readable.
"""

import json
import signal
import sys
import time
from typing import Any

from tasks.remote.probes.judged import judged, same_list
from tasks.remote.probes.pidfd import ended, send
from tasks.remote.probes.proc import ancestors, io_bytes, stat, status
from tasks.remote.probes.refused import Refused, refusal

WANTS = {"boot_id": "str", "processes": "list", "watch_s": "number"}
LOOK_EVERY_S = 0.1  # at the state, until the watch is over


def check(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Everything that must hold before the first signal; the processes, each held by a descriptor."""
    same_list(ask)
    protected = ancestors()
    return [still_stopped(want, protected) for want in ask["processes"]]


def still_stopped(want: "dict[str, Any]", protected: "set[int]") -> "dict[str, Any]":
    """The process, held. Raises Refused where it is gone, runs already, or somebody traces it."""
    pid = int(want["pid"])
    fd, now = judged(want, protected)
    if fd is None or now is None:
        raise Refused("target-changed", "pid %d has ended: there is nothing to continue" % pid)
    tracer = status(pid).get("TracerPid", "0")
    if tracer != "0":
        raise Refused("in-use", "pid %d is traced by pid %s: a debugger holds it" % (pid, tracer))
    if now["state"] != "T":
        raise Refused("target-changed", "pid %d is not stopped any more: its state is %s" % (pid, now["state"]))
    return {"pid": pid, "fd": fd, "cpu": now["cpu_s"], "io": io_bytes(pid), "looks": 0, "stopped": 0}


def go_on(held: "list[dict[str, Any]]", watch_s: float) -> None:
    """SIGCONT to all, then looks until the time is over."""
    began = time.monotonic()
    for h in held:
        send(h["fd"], signal.SIGCONT)
    while time.monotonic() < began + watch_s:
        time.sleep(LOOK_EVERY_S)
        for h in held:
            look(h, began)


def look(h: "dict[str, Any]", began: float) -> None:
    """One look at one of them; what it did is counted as long as it lives."""
    now = stat(h["pid"]) if not ended(h["fd"]) else None
    if now is None:
        h.setdefault("seconds", round(time.monotonic() - began, 2))
        return
    io = io_bytes(h["pid"])
    h["state"], h["looks"] = now["state"], h["looks"] + 1
    h["stopped"] += now["state"] in "Tt"
    h["cpu_s"] = round(now["cpu_s"] - h["cpu"], 2)
    h["io_bytes"] = None if io is None or h["io"] is None else sum(io) - sum(h["io"])


def outcome(h: "dict[str, Any]") -> str:
    """What became of it."""
    return "ended" if "seconds" in h else "stopped again" if h.get("state", "T") in "Tt" else "runs"


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Check, then continue; refuse before the first signal or not at all."""
    try:
        held = check(ask)
    except Refused as e:
        return refusal(e)
    go_on(held, float(ask["watch_s"]))
    names = ("pid", "state", "looks", "stopped", "cpu_s", "io_bytes", "seconds")
    return {"continued": [dict({k: h.get(k) for k in names}, outcome=outcome(h)) for h in held]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
