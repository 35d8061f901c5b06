"""Reads host memory, the control groups that have a limit, and command lines of GPU holders. Changes nothing.

JSON argument: {pids: [], share}; of the groups those that use more than that share of their limit, or in which the kernel killed."""

import json
import os
import re
import sys
import time
from typing import Any

from tasks.remote.probes.proc import namespace

FILES = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
UNLIMITED = 1 << 60
MOST_FOLDERS, MOST_GROUPS = 20000, 64
V2 = {"limit": "memory.max", "used": "memory.current", "events": "memory.events"}
V1 = {"limit": "memory.limit_in_bytes", "used": "memory.usage_in_bytes", "events": "memory.oom_control"}


def text(path: str) -> str:
    """A small file's text; "" if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read(200000)
    except OSError:
        return ""


def memory() -> "dict[str, Any]":
    """Of the machine and of the cgroup."""
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB", text("/proc/meminfo"), re.M))
    out = {  # type: dict[str, Any]
        "total": int(found.get("MemTotal", 0)) * 1024, "available": int(found.get("MemAvailable", 0)) * 1024,
        "swap_free": int(found.get("SwapFree", 0)) * 1024, "free": int(found.get("MemFree", 0)) * 1024,
        "cached": (int(found.get("Cached", 0)) + int(found.get("Buffers", 0))) * 1024,
    }  # fmt: skip
    kills = re.search(r"^oom_kill (\d+)", text("/proc/vmstat"), re.M)
    out["kills"], out["boot"] = int(kills.group(1)) if kills else None, text("/proc/sys/kernel/random/boot_id").strip()
    for limit, used in FILES:
        value = text("/sys/fs/cgroup/" + limit).strip()
        if value.isdigit() and int(value) < UNLIMITED:
            out["cgroup_limit"] = int(value)
            out["cgroup_used"] = max(
                0, int(text("/sys/fs/cgroup/" + used).strip() or 0) - cache(os.path.dirname(limit))
            )
    return out


def cache(below: str) -> int:
    """Page cache of the cgroup: counted as used, and given back when memory is needed."""
    found = dict(
        re.findall(r"^(?:total_)?(\w+) (\d+)$", text(os.path.join("/sys/fs/cgroup", below, "memory.stat")), re.M)
    )
    return int(found.get("inactive_file", 0)) + int(found.get("active_file", 0))


def groups(share: float) -> "dict[str, Any]":
    """Groups with a limit that are near it or had kills: used without page cache, kills since they exist; whether all were seen."""
    old = os.path.exists("/sys/fs/cgroup/memory/memory.usage_in_bytes")
    root, names = ("/sys/fs/cgroup/memory", V1) if old else ("/sys/fs/cgroup", V2)
    found, seen = [], 0  # type: list[dict[str, Any]], int
    for folder, _, _ in os.walk(root):
        seen += 1
        if seen > MOST_FOLDERS:
            break
        value = text(os.path.join(folder, names["limit"])).strip()
        if not value.isdigit() or int(value) >= UNLIMITED:
            continue
        count = re.search(r"^oom_kill (\d+)", text(os.path.join(folder, names["events"])), re.M)
        held, kills = text(os.path.join(folder, names["used"])).strip(), int(count.group(1)) if count else 0
        used = max(0, int(held or 0) - cache(os.path.relpath(folder, "/sys/fs/cgroup")))
        if used > share * int(value) or kills:
            found.append({"path": folder[len(root) :] or "/", "limit": int(value), "used": used, "kills": kills})
    found.sort(key=lambda g: (-g["kills"], -g["used"]))
    return {"list": found[:MOST_GROUPS], "whole": seen <= MOST_FOLDERS}


def command(pid: int) -> str:
    """Command line of a process; "" if it is gone or not visible."""
    return text("/proc/%d/cmdline" % pid).replace("\0", " ").strip()[:2000]


def started(pid: int) -> "float | None":
    """Unix time at which it began; None when it is gone."""
    rest = text("/proc/%d/stat" % pid).rpartition(")")[2].split()
    if len(rest) < 20:
        return None
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(rest[19]) / os.sysconf("SC_CLK_TCK")


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """All of it."""
    there = [p for p in ask["pids"] if os.path.isdir("/proc/%d" % p)]
    near = groups(float(ask["share"]))
    return {"memory": memory(), "groups": near, "namespace": namespace(os.getpid()), "commands": {str(p): command(p) for p in there},
            "started": {str(p): started(p) for p in there}}  # fmt: skip


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
