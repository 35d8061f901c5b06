"""Processes of Ray: whose version, and which session, and what of that is stopped. Part of other probes; starts nothing of Ray."""

import os
import re
import subprocess
from typing import Any

from tasks.remote.probes.halted import halted, still_halted
from tasks.remote.probes.proc import link, names, pids, read, stat

SESSION = re.compile(r"/(session_\d{4}-\d\d-\d\d_[\d-]+_\d+_\d+)(?=[/ ])|--node[-_]id=([0-9a-f]{16,})")
# Ray's own programs: not who reads its logs
OWN = re.compile(r"^ (?:\S+ ){0,3}\S*/ray/(?:core/src/ray|dashboard|autoscaler|_private)/|^ \S+ (?:-\S+ )*-m ray\.")
STARTER = re.compile(r"^ (?:\S+ )?\S*/ray start ")
PACKAGE = re.compile(r"^(/.*)/ray/core/src/ray/\w+/\w+(?: \(deleted\))?$")


def ray_version(pid: int) -> "dict[str, str]":
    """{"ray", "python"} of a gcs_server or raylet, "" what cannot be told; its Python in full where a child shows it."""
    where = PACKAGE.match(link("/proc/%d/exe" % pid))
    if not where:
        return {"ray": "", "python": ""}
    folder = where.group(1)
    found = [m.group(1) for m in (re.match(r"ray-(\d+\.\d+[\w.+-]*)\.dist-info$", n)
             for n in names("/proc/%d/root%s" % (pid, folder)) or []) if m]  # fmt: skip
    return {"ray": found[0] if len(found) == 1 else "", "python": python_version(pid, folder)}


def python_version(pid: int, folder: str) -> str:
    """Of the virtual environment, of the interpreter where this machine's files are the process's, else as the path has it."""
    root = "/proc/%d/root" % pid
    kept = re.search(r"^version(?:_info)? = (\d+\.\d+\.\d+)", read(root + folder + "/../../../pyvenv.cfg") or "", re.M)
    if kept:
        return kept.group(1)
    minor = re.search(r"/python(\d+\.\d+)/", folder + "/")
    program = "%s/bin/python%s" % (os.path.normpath(folder + "/../../.."), minor.group(1)) if minor else ""
    if program and link("/proc/%d/ns/mnt" % pid) == link("/proc/self/ns/mnt") and os.path.exists(program):
        try:
            said = subprocess.run([program, "-V"], stdout=subprocess.PIPE, timeout=3, check=False).stdout.decode()
        except (OSError, subprocess.TimeoutExpired):
            said = ""
        exact = re.match(r"Python (\d+\.\d+\.\d+)", said)
        if exact:
            return exact.group(1)
    return minor.group(1) if minor else ""


def ray_processes(comm: str, words: "tuple[str, ...]") -> "list[dict[str, Any]]":
    """The stats of living processes of Ray's own, by name and what their command line must hold; not the children of one."""
    found = []  # type: list[dict[str, Any]]
    for pid in pids():
        now = stat(pid)
        if now and now["comm"].startswith(comm) and now["state"] not in "ZX":
            line = " %s " % (read("/proc/%d/cmdline" % pid) or "").replace("\0", " ")
            if all(w in line for w in words) and now["ppid"] not in [f["pid"] for f in found]:
                found.append(dict(now, line=line))
    return found


def halted_of(found: "list[dict[str, Any]]") -> "dict[str, Any] | None":
    """The first of them, where a signal has stopped it, with those that run beside it."""
    return halted(found[0]["pid"], tuple(f["pid"] for f in found[1:])) if found else None


def stopped_beside(daemon: "dict[str, Any] | None") -> "list[dict[str, Any]]":
    """Where a signal has stopped this daemon: every other stopped process of its session here, the parents before the children."""
    if daemon is None or daemon["state"] != "T":
        return []
    table = {now["pid"]: now for now in map(stat, pids()) if now}
    words = {word for found in SESSION.findall(daemon["line"]) for word in found if word}
    mine = {p for p in table if p == daemon["pid"] or _of_session(p, words)}
    mine |= {table[p]["ppid"] for p in mine if STARTER.match(_line(table[p]["ppid"]))}
    while True:  # what they started, and what that started
        more = {p for p, now in table.items() if now["ppid"] in mine} - mine
        if not more:
            break
        mine |= more
    found = (halted(p) for p in sorted(mine, key=lambda p: table[p]["start_ticks"]) if p != daemon["pid"])
    return [one for one in found if one]


def still_stopped(before: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """Those of them that are stopped at this later look as well."""
    return [now for now in map(still_halted, before) if now]


def _of_session(pid: int, words: "set[str]") -> bool:
    line = _line(pid)
    return bool(OWN.match(line)) and any(word in line for word in words)


def _line(pid: int) -> str:
    return " %s " % (read("/proc/%d/cmdline" % pid) or "").replace("\0", " ").strip()
