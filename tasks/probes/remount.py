"""Changes one FUSE mount of the host: unmounts it if it is dead, mounts it again, reads it. JSON in, JSON out.

Argument: path, mount (argv). Refuses a mount that answers; fails on files underneath.
"""

import errno
import json
import os
import subprocess
import sys
import time
from typing import Any

from tasks.probes.fuse_table import table, try_path


def run(argv: "list[str]", timeout: float) -> "tuple[int, str]":
    """Exit code and last line."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout
        )
    except FileNotFoundError:
        return 127, "%s: not found" % argv[0]
    except subprocess.TimeoutExpired:
        return 124, "no end after %g s" % timeout
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, lines[-1][:300] if lines else ""


def unmount(path: str) -> "list[str]":
    """Lazily, all layers of dead mounts at the path. What was done."""
    said = []
    for _ in range(5):
        if not any(p == path for _, p, _ in table("/proc/self/mounts") or []):
            break
        for argv in (["umount", "-l", path], ["fusermount3", "-u", "-z", path], ["fusermount", "-u", "-z", path]):
            code, last = run(argv, 20)
            if code == 0:
                said.append(" ".join(argv))
                break
        else:
            said.append("unmount failed: %s" % last)
            break
    return said


def empty(path: str) -> bool:
    """True for a folder with nothing in it."""
    try:
        return not os.listdir(path)
    except OSError as e:
        return e.errno == errno.ENOENT


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    path = ask["path"]
    mounted = any(p == path for _, p, _ in table("/proc/self/mounts") or [])
    if mounted:
        state, error = try_path(path, 2.0)
        if state != "dead":
            return {"refused": "%s is %s, not dead" % (path, state)}
    said = unmount(path) if mounted else ["it was not mounted any more"]
    if any(p == path for _, p, _ in table("/proc/self/mounts") or []):
        return {"failed": "; ".join(said)}
    if not empty(path):
        return {"failed": "%s holds files underneath the mount: look at them first (%s)" % (path, "; ".join(said))}
    code, last = run(ask["mount"], 60)
    said.append("mount: exit %d %s" % (code, last))
    end = time.monotonic() + 10
    state, error = "not mounted", ""
    while code == 0 and time.monotonic() < end:
        if any(p == path for _, p, _ in table("/proc/self/mounts") or []):
            state, error = try_path(path, 2.0)
            break
        time.sleep(0.1)
    if state != "alive" or error:
        return {"failed": "%s is %s %s after it (%s)" % (path, state, error, "; ".join(said))}
    return {"said": [*said, "%s is mounted and can be listed" % path]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
