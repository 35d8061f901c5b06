"""Starts a job's command detached, unless a process of the job already runs. JSON: job, argv, match, watch_s.

Own session, stdin from /dev/null, output to a file that the answer names, an environment without the engine's own.
Answer: {"refused": why}, {"failed": why}, or pid, start_ticks, log, exit (null while it runs), running.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

from tasks.remote.probes.proc import boot_id, matching, read, stat

WANTS = {"job": "str", "argv": "list", "match": "str", "watch_s": "number"}
KEEP = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS")  # fmt: skip
PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "NCCL_")


def folder() -> str:
    """Where logs of started jobs lie: of this user alone."""
    home = "/var/log/gpu-runbooks" if os.geteuid() == 0 else os.path.expanduser("~/.gpu-runbooks/log")
    os.makedirs(home, mode=0o700, exist_ok=True)
    return home


def environment() -> "dict[str, str]":
    """The login's environment, without what this engine's own settings and secrets would add."""
    return {k: v for k, v in os.environ.items() if k in KEEP or k.startswith(PREFIXES)}


def start(ask: "dict[str, Any]", home: str) -> "dict[str, Any]":
    """Start it and watch it for a moment."""
    log = os.path.join(home, "%s-%d.log" % (ask["job"], int(time.time() * 1000)))
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        p = subprocess.Popen(ask["argv"], stdin=subprocess.DEVNULL, stdout=fd, stderr=subprocess.STDOUT, cwd="/",
                             env=environment(), start_new_session=True, close_fds=True)  # fmt: skip
    except OSError as e:
        return {"failed": "%s does not start: %s" % (ask["argv"][0], e)}
    finally:
        os.close(fd)
    began, now = time.monotonic(), stat(p.pid)
    while p.poll() is None and time.monotonic() < began + float(ask["watch_s"]):
        time.sleep(0.05)
    text = read(log) or ""
    tail = text[-400:]
    if len(text) > len(tail):
        tail = tail.partition("\n")[2] or tail.partition(" ")[2]  # half a secret is not known for one
    running = [{"pid": r["pid"], "start_ticks": r["start_ticks"]} for r in matching(ask["match"])]
    return {"pid": p.pid, "start_ticks": now["start_ticks"] if now else None, "log": log, "exit": p.returncode,
            "tail": tail, "running": running[:20], "others": others(running, p.pid), "boot_id": boot_id()}  # fmt: skip


def others(running: "list[dict[str, Any]]", mine: int) -> "list[int]":
    """Processes of the job that somebody else started in the same moment: in another session than ours."""
    return [r["pid"] for r in running if (stat(r["pid"]) or {"sid": mine})["sid"] != mine]


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Starts of ours exclude each other by the lock of their owner, which is held around this."""
    running = matching(ask["match"])
    if running:
        return {"refused": "job %s already runs: pid %s" % (ask["job"], ", ".join(str(p["pid"]) for p in running[:10])), "code": "in-use"}
    return start(ask, folder())


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
