"""Reads FUSE mounts of the host and of one container: alive, dead or hung. JSON argument: {pids, container, wait_s}.

`container` is a pid inside the container (0: none), whose mount table is read and whose paths are tried through /proc.
"""

import errno
import json
import os
import re
import sys
import time
from typing import Any

from tasks.probes.proc import command, pids, read, stat

OCTAL = re.compile(r"\\([0-7]{3})")


def table(path: str) -> "list[tuple[str, str, str]] | None":
    """(source, mount point, type) of the FUSE mounts in a mount table."""
    text = read(path, 1 << 20)
    if text is None:
        return None
    rows = [line.split(" ") for line in text.splitlines() if line.count(" ") >= 5]
    plain = [[OCTAL.sub(lambda m: chr(int(m.group(1), 8)), w) for w in row[:3]] for row in rows]
    return [(r[0], r[1], r[2]) for r in plain if r[2].split(".")[0] in ("fuse", "fuseblk")]


def try_path(path: str, wait_s: float) -> "tuple[str, str]":
    """State and error of a mount: asked in a child, which is left behind when the mount hangs."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.statvfs(path)
            os.listdir(path)
            said = "0"
        except OSError as e:
            said = "%d %s" % (e.errno or 0, e.strerror)
        os.write(w, said.encode())
        os._exit(0)
    os.close(w)
    ended = wait(child, wait_s)
    said = os.read(r, 1000).decode() if ended else ""
    os.close(r)
    if not ended:
        return "hung", "no answer in %g s" % wait_s
    number, _, text = said.partition(" ")
    dead = number.isdigit() and int(number) in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)
    return ("dead" if dead else "alive"), text


def wait(child: int, wait_s: float) -> bool:
    """True when the child ended in time; otherwise it is killed (a killable wait ends with it)."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(child, 9)
    time.sleep(0.05)
    os.waitpid(child, os.WNOHANG)
    return False


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


def rows(where: str, root: str, found: "list[tuple[str, str, str]]", wait_s: float) -> "list[dict[str, Any]]":
    """Each mount with its state."""
    out = []
    for source, path, kind in found:
        state, error = try_path(root + path, wait_s)
        out.append({"path": path, "type": kind, "where": where, "state": state, "error": error,
                    "server": server(path, source)})  # fmt: skip
    return out


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """FUSE mounts of the host, and those that only the container has."""
    own = table("/proc/self/mounts") or []
    out = rows("host", "", own, ask["wait_s"])
    pid, unread = int(ask["container"]), ""
    if pid:
        theirs = table("/proc/%d/mounts" % pid)
        if theirs is None or not os.access("/proc/%d/root/" % pid, os.X_OK):
            unread = "the mount table of pid %d" % pid
        else:
            out += rows("container", "/proc/%d/root" % pid, theirs, ask["wait_s"])
    return {"mounts": out, "unread": unread}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
