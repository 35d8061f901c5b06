"""Reads the table of FUSE mounts and tries a mount without being caught in it. For the probes about mounts."""

import errno
import os
import re
import time

from tasks.probes.proc import read

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
