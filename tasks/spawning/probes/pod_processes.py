"""In the pod: processes whose command line matches or that its start began, and the pod's own id. Changes nothing."""

import os
import re
from typing import Any, Dict, List, Optional

from tasks.remote.probes.moved import look
from tasks.remote.probes.proc import HZ, MARK, environ, read

POD_ID = re.compile("RUNPOD_POD_ID$")


def pod_id() -> str:
    """RUNPOD_POD_ID of the first process, else of this one."""
    first = environ(1, POD_ID) or {}
    return first.get("RUNPOD_POD_ID", os.environ.get("RUNPOD_POD_ID", ""))


def matching(pattern: str) -> List[Dict[str, Any]]:
    wanted = re.compile(pattern)
    return [
        dict({k: p[k] for k in ("pid", "start_ticks", "age_s")}, command=p["words"][:200])
        for _, p in sorted(_living().items())
        if MARK not in p["words"] and wanted.search(p["words"])
    ]


def all_below() -> "Optional[Dict[int, Dict[str, Any]]]":
    """All that the pod's start began, by pid; None where that is not told. Without sshd's own processes and this look.

    The start is the uppermost process above this one that has the pod's id in its environment: PID 1 in a pod."""
    every = _living()
    mine, pid = [], os.getpid()
    while pid in every and pid not in mine:
        mine.append(pid)
        pid = every[pid]["ppid"]
    marked = [p for p in mine if environ(p, POD_ID)]
    if not marked:
        return None
    below = {marked[-1]}
    while True:
        more = {p for p, x in every.items() if x["ppid"] in below} - below
        if not more:
            break
        below |= more
    return {
        p: dict(every[p], first=p == marked[-1])
        for p in below
        if p not in mine[: mine.index(marked[-1])] and not every[p]["comm"].startswith("sshd")
    }


def _living() -> "Dict[int, Dict[str, Any]]":
    """Counters, age and words of every process that has a command line and has not ended."""
    up = float((read("/proc/uptime") or "0").split()[0])
    found = {}
    for pid, now in look().items():
        words = (read("/proc/%d/cmdline" % pid, 1 << 22) or "").replace("\0", " ").strip()
        if words and now["state"] != "Z":
            found[pid] = dict(now, words=words, age_s=up - now["start_ticks"] / HZ)
    return found
