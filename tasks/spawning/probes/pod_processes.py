"""In the pod: processes whose command line matches or that its start began, the boot id, the pod's id. Changes nothing."""

import glob
import os
import re
from typing import Any, Dict, List, Optional


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return ""


def pod_id() -> str:
    """RUNPOD_POD_ID of the first process, else of this one."""
    try:
        with open("/proc/1/environ", "rb") as f:
            for item in f.read().split(b"\0"):
                if item.startswith(b"RUNPOD_POD_ID="):
                    return item.partition(b"=")[2].decode("ascii", "replace")
    except OSError:
        pass
    return os.environ.get("RUNPOD_POD_ID", "")


def matching(pattern: str) -> List[Dict[str, Any]]:
    wanted, found = re.compile(pattern), []
    with open("/proc/uptime") as f:
        up = float(f.read().split()[0])
    tick = os.sysconf("SC_CLK_TCK")
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cmdline", "rb") as f:
                words = f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            with open(path + "/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if not words or fields[0] == "Z" or "gpu-runbooks-probe" in words or not wanted.search(words):
            continue
        ticks = int(fields[19])
        item = {"pid": int(path[6:]), "start_ticks": ticks, "age_s": up - ticks / tick, "command": words[:200]}
        found.append(item)
    return sorted(found, key=lambda p: p["pid"])


def all_below() -> "Optional[Dict[int, Dict[str, Any]]]":
    """All that the pod's start began, by pid; None where that is not told. Without sshd's own processes and this look.

    The start is the uppermost process above this one that has the pod's id in its environment: PID 1 in a pod."""
    every = {p["pid"]: p for p in map(_process, glob.glob("/proc/[0-9]*")) if p}
    mine, pid = [], os.getpid()
    while pid in every and pid not in mine:
        mine.append(pid)
        pid = every[pid]["ppid"]
    marked = [p for p in mine if _has_pod_id(p)]
    if not marked:
        return None
    below = {marked[-1]}
    while True:
        more = {p for p, x in every.items() if x["ppid"] in below} - below
        if not more:
            break
        below |= more
    return {
        p: dict({k: v for k, v in every[p].items() if k not in ("ppid", "name")}, first=p == marked[-1])
        for p in below
        if p not in mine[: mine.index(marked[-1])] and not every[p]["name"].startswith("sshd")
    }


def _has_pod_id(pid: int) -> bool:
    try:
        with open("/proc/%d/environ" % pid, "rb") as f:
            return any(x.startswith(b"RUNPOD_POD_ID=") for x in f.read().split(b"\0"))
    except OSError:
        return False


def _process(path: str) -> "Dict[str, Any]":
    """Empty where it is dead, gone or has no command line."""
    try:
        with open(path + "/cmdline", "rb") as f:
            words = f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        with open(path + "/stat") as f:
            name, _, rest = f.read().partition("(")[2].rpartition(")")
        with open("/proc/uptime") as f:
            up = float(f.read().split()[0])
    except OSError:
        return {}
    fields, tick = rest.split(), os.sysconf("SC_CLK_TCK")
    if not words or fields[0] == "Z":
        return {}
    return {
        "pid": int(path[6:]), "ppid": int(fields[1]), "name": name, "command": words[:200], "start_ticks": int(fields[19]),
        "age_s": up - int(fields[19]) / tick, "cpu_s": sum(map(int, fields[11:13])) / tick, "io_bytes": _io(path),
    }  # fmt: skip


def _io(path: str) -> int:
    """What it read and wrote; 0 where that may not be read."""
    try:
        with open(path + "/io") as f:
            said = dict(line.split(":") for line in f)
        return int(said["rchar"]) + int(said["wchar"])
    except (OSError, ValueError, KeyError):
        return 0
