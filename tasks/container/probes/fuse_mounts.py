"""Reads FUSE mounts of the host and of one container: alive, dead or hung. JSON argument: {pids, container, wait_s}.

`container` is a pid inside the container (0: none), whose mount table is read and whose paths are tried through /proc.
"""

import json
import os
import sys
from typing import Any

from tasks.container.probes.fuse_table import table, try_path
from tasks.remote.probes.proc import command, pids, stat


def server(path: str, source: str) -> "int | None":
    """The process that serves the mount: its command line names the mount point."""
    for pid in pids():
        now = stat(pid)
        if now is None or now["state"] in "ZX" or pid == os.getpid():
            continue
        text = " %s " % command(pid, now["state"], now["comm"])
        if " %s " % path in text and ("fuse" in text or source in text or "sshfs" in text):
            return pid
    return None


def rows(where: str, pid: int, found: "list[tuple[str, str, str, tuple[int, int]]]", wait_s: float) -> "list[dict[str, Any]]":
    """Each mount with its state, seen by this process (0) or by one in a container."""
    out = []
    for source, path, kind, user in found:
        state, error = try_path(("/proc/%d/root" % pid if pid else "") + path, user, wait_s, pid)
        out.append({"path": path, "type": kind, "where": where, "state": state, "error": error,
                    "server": server(path, source)})  # fmt: skip
    return out


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """FUSE mounts of the host, and those that only the container has."""
    own = table("/proc/self/mounts") or []
    out = rows("host", 0, own, ask["wait_s"])
    pid, unread = int(ask["container"]), ""
    if pid:
        theirs = table("/proc/%d/mounts" % pid)
        if theirs is None or not os.access("/proc/%d/root/" % pid, os.X_OK):
            unread = "the mount table of pid %d" % pid
        else:
            out += rows("container", pid, theirs, ask["wait_s"])
    return {"mounts": out, "unread": unread}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
