"""Reads TCP sockets of processes: bytes moved (from `ss`), ports listened on (from /proc)."""

import os
import re
import subprocess

from tasks.remote.probes.proc import link, names, read

PID = re.compile(r"pid=(\d+),")
BYTES = re.compile(r"bytes_(?:sent|received):(\d+)")


def ss(*options: str) -> "str | None":
    """Output of `ss`, or None where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(("ss",) + options, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def tcp_bytes() -> "dict[int, dict[str, int]] | None":
    """Bytes moved by every connection of every process: {pid: {connection: bytes}}; None where `ss` is missing."""
    text = ss("-tinpH")
    if text is None:
        return None
    found, key, owners = {}, "", []  # type: dict[int, dict[str, int]], str, list[int]
    for line in text.splitlines():
        if not line[:1].isspace():
            fields = line.split()
            key = " ".join(fields[3:5])
            owners = sorted({int(p) for p in PID.findall(line)})
        total = sum(int(n) for n in BYTES.findall(line))
        for pid in owners if total else ():
            one = found.setdefault(pid, {})
            one[key] = one.get(key, 0) + total
    return found


def same_network(pid: int) -> bool:
    """Whether that process has this probe's network namespace (`ss` sees only that)."""
    return link("/proc/%d/ns/net" % pid) == link("/proc/%d/ns/net" % os.getpid())


def listening(pid: int) -> "list[int]":
    """TCP ports that it listens on."""
    links = (link("/proc/%d/fd/%s" % (pid, fd)) for fd in names("/proc/%d/fd" % pid) or [])
    inodes = {s[8:-1] for s in links if s.startswith("socket:[")}
    if not inodes:
        return []
    rows = [
        r.split() for f in ("tcp", "tcp6") for r in (read("/proc/%d/net/%s" % (pid, f), 1 << 22) or "").splitlines()[1:]
    ]
    return sorted({int(r[1].rsplit(":", 1)[1], 16) for r in rows if len(r) > 9 and r[3] == "0A" and r[9] in inodes})
