"""Reads host memory, cgroup limits, kernel kills and command lines of GPU holders. Changes nothing. JSON argument:
{pids: []}."""

import json
import os
import re
import sys
from typing import Any

FILES = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
UNLIMITED = 1 << 60


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
    out = {
        "total": int(found.get("MemTotal", 0)) * 1024, "available": int(found.get("MemAvailable", 0)) * 1024,
        "swap_free": int(found.get("SwapFree", 0)) * 1024,
    }  # fmt: skip
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


def command(pid: int) -> str:
    """Command line of a process; "" if it is gone or not visible."""
    return text("/proc/%d/cmdline" % pid).replace("\0", " ").strip()[:2000]


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """All of it."""
    return {"memory": memory(), "commands": {str(p): command(p) for p in ask["pids"] if os.path.isdir("/proc/%d" % p)}}


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
