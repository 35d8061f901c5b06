"""Looks at a container's processes over a window: who is at work in it now. Reads only. Python 3.6.

JSON argument: container (full id), boot_id ("": of any), window_s, cpu_percent (of one core), io_bytes_per_s, socket_bytes_per_s,
moving [{pid, start_ticks}]: those of whom it is known that they move, service: a pattern for command lines of what only serves ("": none).
Answer: {"seen": how many, "at_work": [{pid, start_ticks, says}]}, or {"refused": why}.
"""

import json
import re
import sys
import time
from typing import Any

from tasks.remote.probes.moved import look, rows_inside
from tasks.remote.probes.proc import boot_id, command, stat, wait_until
from tasks.remote.probes.refused import Refused, refusal
from tasks.remote.probes.sockets import tcp_bytes


def does(row: "dict[str, Any]", ask: "dict[str, Any]", taken: float) -> str:
    """What it did within the window, "" if nothing above the limits."""
    cpu, io, tcp = row["cpu_window_s"], row["io_window_bytes"], row["sockets_moved_bytes"]
    if io is None:
        raise Refused("cannot-check", "what pid %d in it does may not be read (run as root)" % row["pid"])
    if io > ask["io_bytes_per_s"] * taken:
        return "read and wrote %.1f MiB in %.1f s" % (io / 1048576, taken)
    if (tcp or 0) > ask["socket_bytes_per_s"] * taken:
        return "moved %.1f MiB through TCP in %.1f s" % (tcp / 1048576, taken)
    return "used %.2f s of CPU in %.1f s" % (cpu, taken) if 100 * cpu > ask["cpu_percent"] * taken else ""


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Two looks."""
    if ask["boot_id"] not in ("", boot_id()):
        raise Refused("target-changed", "the node was booted since the judgment")
    began, first, sockets = time.monotonic(), look(), tcp_bytes()
    wait_until(began + float(ask["window_s"]))
    table, taken = look(), time.monotonic() - began
    rows = rows_inside(table, first, (sockets, tcp_bytes())).get(ask["container"], [])
    known = {(one["pid"], one["start_ticks"]) for one in ask["moving"]}
    found = []
    for row in rows:
        words = "" if (row["pid"], row["start_ticks"]) in known else does(row, ask, taken)
        line = name(row["pid"]) if words else ""
        if words and not (ask["service"] and re.search(ask["service"], line)):
            says = "pid %d (%s) %s" % (row["pid"], line[:120], words)
            found.append({"pid": row["pid"], "start_ticks": row["start_ticks"], "says": says})
    return {"seen": len(rows), "at_work": found}


def name(pid: int) -> str:
    """Its command line."""
    now = stat(pid)
    return command(pid, now["state"], now["comm"]) if now else "it ended since"


if __name__ == "__main__":
    try:
        print(json.dumps(main(json.loads(sys.argv[1]))))
    except (OSError, Refused) as e:
        print(json.dumps(refusal(e)))
