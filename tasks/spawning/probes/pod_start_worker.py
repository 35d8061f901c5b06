"""In the pod: starts the worker detached, under a lock file, unless one runs. Changes: one process more.

Argument: {argv, match, lock ("": one of this user's own), boot_id, pod, out, watch_s}. Lock and log are opened where nothing
that another user of the pod owns decides where they lie. Who starts a worker without this lock is seen only afterwards."""

import fcntl
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict

from tasks.remote.probes.below import open_trusted
from tasks.remote.probes.proc import boot_id
from tasks.spawning.probes.pod_processes import matching, pod_id

WANTS = {
    "argv": "list", "match": "str", "lock": "str", "boot_id": "str", "pod": "str", "out": "str", "watch_s": "number",
}  # fmt: skip


def start(ask: Dict[str, Any]) -> Dict[str, Any]:
    if boot_id() != ask["boot_id"]:
        return {"refused": "the machine was booted again since it was read", "code": "target-changed"}
    if pod_id() and pod_id() != ask["pod"]:
        return {"refused": "this is pod %s, not %s" % (pod_id(), ask["pod"]), "code": "target-changed"}
    try:
        lock = open_trusted(ask["lock"] or own_lock(), os.O_RDWR, make=0o700)
    except OSError as e:
        return {"refused": "the lock: %s" % e.strerror, "code": "not-supported"}
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return start_alone(ask)
    except BlockingIOError:
        return {"refused": "another start holds %s" % (ask["lock"] or own_lock()), "code": "in-use"}
    finally:
        os.close(lock)


def start_alone(ask: Dict[str, Any]) -> Dict[str, Any]:
    running = matching(ask["match"])
    if running:
        return {"refused": "a worker runs already: pid %d" % running[0]["pid"], "code": "in-use"}
    try:
        out = open_trusted(ask["out"], os.O_WRONLY | os.O_APPEND, 0o644)
    except OSError as e:
        return {"refused": "the log: %s" % e.strerror, "code": "not-supported"}
    try:
        child = subprocess.Popen(
            ask["argv"], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/"
        )
    except OSError as e:
        return {"failed": "%s: %s" % (ask["argv"][0], e.strerror)}
    finally:
        os.close(out)
    time.sleep(ask["watch_s"])
    code = child.poll()
    found = matching(ask["match"])
    if code is not None and not found:
        return {"failed": "the worker ended at once with %d; see %s" % (code, ask["out"])}
    others = [p["pid"] for p in found if p["pid"] != child.pid and session(p["pid"]) != child.pid]
    return {"pid": child.pid, "running": [p["pid"] for p in found], "others": others}


def session(pid: int) -> int:
    """Its session; 0 when it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def own_lock() -> str:
    """A lock that no other user can hold."""
    return ("/run/gpu-runbooks" if os.geteuid() == 0 else os.path.expanduser("~/.gpu-runbooks")) + "/worker.lock"


if __name__ == "__main__":
    print(json.dumps(start(json.loads(sys.argv[1]))))
