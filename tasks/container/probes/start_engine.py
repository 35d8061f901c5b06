"""Changes the engine's daemon from down to up. Refuses while it runs. JSON argument: {pidfile, start}."""

import json
import subprocess
import sys
from typing import Any

from tasks.remote.probes.proc import command, pids, read, stat

WANTS = {"pidfile": "str", "start": "list"}


def running(pidfile: str) -> int:
    """The daemon's pid, 0 when there is none."""
    text = (read(pidfile) or "").strip()
    listed = [int(text)] if text.isdigit() else (pids() if pidfile == "/var/run/docker.pid" else [])
    for pid in listed:
        now = stat(pid)
        if now and now["state"] not in "ZX" and "dockerd" in command(pid, now["state"], now["comm"]).split(" ")[0]:
            return pid
    return 0


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    pid = running(ask["pidfile"])
    if pid:
        return {"refused": "the daemon runs (pid %d): it is not restarted" % pid, "code": "in-use"}
    try:
        done = subprocess.run(
            ask["start"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return {"failed": "the start command: %s" % e}
    if done.returncode != 0:
        return {
            "failed": "the start command ended with %d: %s"
            % (done.returncode, done.stdout.decode("utf-8", "replace")[-300:])
        }
    return {"said": ["daemon started by %s" % " ".join(ask["start"])]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
