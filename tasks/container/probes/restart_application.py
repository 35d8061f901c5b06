"""Changes what runs inside one container: ends the application's processes and starts it again. JSON in, JSON out.

Argument: engine, socket, id, started_at, match, start, detached.
"""

import json
import os
import re
import signal
import sys
import time
from typing import Any

from tasks.container.probes.engine_api import Api, EngineError
from tasks.container.probes.run_inside import run_inside, seconds, wanted_time
from tasks.remote.probes.pidfd import open_pidfd, send
from tasks.remote.probes.proc import cgroup, command, pids, same, stat, status
from tasks.remote.probes.refused import Refused, refusal

WANTS = {
    "engine": "list", "socket": "str", "id": "str", "started_at": "str", "match": "str", "start": "list", "detached": "bool",
}  # fmt: skip


def leftovers(ident: str, match: str) -> "list[tuple[int, int]]":
    """(pid, start) of processes in the container whose command line matches; never its first process."""
    found = []
    for pid in pids():
        now = stat(pid) if ident in cgroup(pid) else None
        if now is None or now["state"] in "ZX" or (status(pid).get("NSpid") or "x").split()[-1] == "1":
            continue
        if re.search(match, command(pid, now["state"], now["comm"])):
            found.append((pid, now["start_ticks"]))
    return found


def end(found: "list[tuple[int, int]]") -> int:
    """TERM, then KILL after 5 s, each only while (pid, start) is the same process. How many there were."""
    for sig, wait in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0)):
        left = [(p, t) for p, t in found if alive(p, t)]
        for pid, ticks in left:
            signal_one(pid, ticks, sig)
        until = time.monotonic() + wait
        while left and time.monotonic() < until and any(alive(p, t) for p, t in left):
            time.sleep(0.05)
    return len(found)


def alive(pid: int, ticks: int) -> bool:
    """True while it is that process and has not ended."""
    now = same(pid, ticks)
    return now is not None and now["state"] not in "ZX"


def signal_one(pid: int, ticks: int, sig: int) -> None:
    """A signal through a pidfd, so that no other process with that number can get it."""
    try:
        fd = open_pidfd(pid)
    except OSError:
        return
    if fd is None:
        return
    try:
        if alive(pid, ticks):
            send(fd, sig)
    finally:
        os.close(fd)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    found = leftovers(ask["id"], ask["match"])  # first: they lived in the life of the container that is compared after it
    try:
        it = Api(ask["socket"]).inspect(ask["id"])
        if it is None or it["State"]["Status"] != "running":
            raise Refused("target-changed", "the container %s does not run any more" % ask["id"][:12])
        if seconds(it["State"]["StartedAt"]) != wanted_time(ask["started_at"]):
            raise Refused("target-changed", "the container was started again at %s" % it["State"]["StartedAt"])
    except (Refused, EngineError, OSError) as e:
        return refusal(e)
    said = ["%d processes of the application ended inside" % end(found)]
    more = ["-d"] if ask["detached"] else []
    ran = run_inside(dict(ask, setup_timeout_s=60), ask["id"], ask["start"], it["Config"].get("Env") or [], more)
    return {"said": said, "ran": [ran]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
