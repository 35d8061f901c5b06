"""Reads the kernel log's kills for memory and faults of processes. For the probes about containers and Ray nodes."""

import re
import time
from typing import Any

from tasks.remote.probes.kernel import AT, WAYS, ask_tool

KILL = re.compile(r"Killed process (\d+) \((.+?)\)")
VICTIM = re.compile(r"oom-kill:constraint=(\w+).*?task_memcg=([^,]*),task=.*?,pid=(\d+)")

FAULT = re.compile(r"(?P<comm>[^\s\[\]]+)\[(?P<pid>\d+)\]:? (?:segfault at|general protection|trap \w+)"
                   r"|NVRM: Xid \(.*?\): \d+, pid='?(?P<xpid>\d+)'?, name=(?P<xname>[^,\s]+)")  # fmt: skip


def monotonic_zero() -> float:
    """Unix time at which the kernel log's clock was zero."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def kernel() -> "dict[str, Any]":
    """Lines of the kernel log about kills for memory: `dmesg`, else `journalctl -k -b`."""
    tried = []
    for argv in WAYS:
        got = ask_tool(argv)
        text = "\n".join(got["lines"])
        if got["exit"] == 0 and text.strip():
            return {"kills": kills(text), "faults": faults(text), "error": ""}
        tried.append("%s: %s" % (got["tool"], got["said"] or "no lines"))
    return {"kills": [], "faults": [], "error": "; ".join(tried)}


def faults(text: str) -> "list[dict[str, Any]]":
    """Processes that the kernel stopped for a fault of their own, or on whose behalf a GPU reported one (Xid)."""
    found, zero = [], monotonic_zero()
    for line in text.splitlines():
        m, at = FAULT.search(line), AT.match(line)
        if m and at:
            found.append({"at": zero + float(at.group(1)), "pid": int(m.group("pid") or m.group("xpid")),
                          "process": m.group("comm") or m.group("xname"), "text": line.split("] ", 1)[-1][:300]})  # fmt: skip
    return found[-50:]


def kills(text: str) -> "list[dict[str, Any]]":
    """Kills for memory: the victim's cgroup is in the line before."""
    found, zero = [], monotonic_zero()
    victims: "dict[int, tuple[str, str]]" = {}
    for line in text.splitlines():
        v, k = VICTIM.search(line), KILL.search(line)
        at = AT.match(line)
        if v:
            victims[int(v.group(3))] = (v.group(1), v.group(2))
        if k:
            limit, group = victims.get(int(k.group(1)), ("", ""))
            memcg = limit == "CONSTRAINT_MEMCG" or "Memory cgroup out of memory" in line
            when = zero + float(at.group(1)) if at else None
            found.append({"at": when, "pid": int(k.group(1)), "process": k.group(2),
                          "memcg": memcg, "cgroup": group, "text": line.split("] ", 1)[-1][:300]})  # fmt: skip
    return found[-50:]
