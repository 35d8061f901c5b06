"""In the pod: starts the worker detached, under a lock file, unless one runs. Changes: one process more.

Argument: {argv, match, lock, boot_id, pod, out, watch_s}."""

import fcntl
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict

from tasks.probes.pod_processes import boot_id, matching, pod_id


def start(ask: Dict[str, Any]) -> Dict[str, Any]:
    if boot_id() != ask["boot_id"]:
        return {"refused": "the machine was booted again since it was read"}
    if pod_id() and pod_id() != ask["pod"]:
        return {"refused": "this is pod %s, not %s" % (pod_id(), ask["pod"])}
    lock = os.open(ask["lock"], os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return {"refused": "another start holds %s" % ask["lock"]}
    running = matching(ask["match"])
    if running:
        return {"refused": "a worker runs already: pid %d" % running[0]["pid"]}
    try:
        os.makedirs(os.path.dirname(ask["out"]), exist_ok=True)
        out = open(ask["out"], "ab")  # noqa: SIM115 - the child keeps it
        child = subprocess.Popen(
            ask["argv"], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/"
        )
    except OSError as e:
        return {"failed": "%s: %s" % (ask["argv"][0], e.strerror)}
    time.sleep(ask["watch_s"])
    code = child.poll()
    found = matching(ask["match"])
    if code is not None and not found:
        return {"failed": "the worker ended at once with %d; see %s" % (code, ask["out"])}
    return {"pid": child.pid, "running": [p["pid"] for p in found]}


if __name__ == "__main__":
    print(json.dumps(start(json.loads(sys.argv[1]))))
