"""Reads one Ray node: its logs, raylet, workers' activity in a window, kills, interfaces. JSON in, JSON out.

Argument: temp_dir, window_s, tail (bytes of each log), logs (how many, newest first), driver (glob or ""), ip,
pids (processes whose logs are read however old they are). What could not be read is {"reason", "detail"}, never empty.
"""

import errno
import glob
import json
import os
import re
import subprocess
import sys
import time
from typing import Any

from tasks.ray.probes.ray_version import halted_of, ray_processes, ray_version, still_stopped, stopped_beside
from tasks.remote.probes.halted import still_halted
from tasks.remote.probes.kernel_kills import kernel
from tasks.remote.probes.proc import HZ, command, io_bytes, link, namespace, own_pid, pids, read, stat, uptime

LOG = re.compile(r"worker-.*\.(?:err|out)$|job-driver-.*\.log$|runtime_env_setup-.*\.log$|raylet\.err$")
GONE = (errno.ENOENT, errno.ENOTDIR)
SESSION = re.compile(r"/session_[^/]+/logs/")  # of a cluster
WORKER = re.compile(r"^ray::|default_worker\.py|-m ray\b")


def last_bytes(path: str, size: int) -> str:
    """The end of a file in whole lines: half a secret is not known for one. Raises OSError."""
    with open(path, "rb") as f:
        before = max(0, os.fstat(f.fileno()).st_size - size)
        f.seek(before)
        text = f.read(size).decode("utf-8", "replace")
        return (text.partition("\n")[2] or text.partition(" ")[2]) if before else text


def last_lines(path: str, size: int, most: int) -> "list[str] | dict[str, str]":
    """Its last lines, or why they were not read."""
    try:
        return last_bytes(path, size).splitlines()[-most:]
    except OSError as e:
        return unread(e)


def unread(e: OSError) -> "dict[str, str]":
    """Why something was not read."""
    return {"reason": "denied" if e.errno in (errno.EACCES, errno.EPERM) else "failed", "detail": str(e)}


def logs(ask: "dict[str, Any]", raylet: bool) -> "list[dict[str, Any]] | dict[str, str] | None":
    """Logs of workers, drivers and what is set up for them, the newest first, each with its end; None where Ray has no folder of logs."""
    folder = ask["temp_dir"] + "/session_latest/logs"
    try:
        paths = [folder + "/" + n for n in os.listdir(folder) if LOG.match(n)]
        found = written({*paths, *(glob.glob(ask["driver"]) if ask["driver"] else ())})
    except OSError as e:
        return None if e.errno in GONE and not raylet else unread(e)
    named = tuple("-%d.%s" % (pid, end) for pid in ask["pids"] for end in ("err", "out"))
    kept = [x for x in found[ask["logs"] :] if x[2].endswith(named)]
    return [{"path": p, "size": s, "age": time.time() - m, "lines": last_lines(p, ask["tail"], 60)}
            for m, s, p in found[: ask["logs"]] + kept]  # fmt: skip


def written(paths: "set[str]") -> "list[tuple[float, int, str]]":
    """(time of the last write, size, path) of each that is not empty, the newest first. Raises OSError for one that is there."""
    found = []
    for path in paths:
        try:
            info = os.stat(path)
        except OSError as e:
            if e.errno in GONE:
                continue
            raise
        if info.st_size:
            found.append((info.st_mtime, info.st_size, path))
    return sorted(found, reverse=True)


def scaler(folder: str) -> "dict[str, Any] | None":
    """The end of the autoscaler's log; None where there is none."""
    path = folder + "/monitor.log"
    at = age(path)
    if at is None:
        return None
    return {"path": path, "size": os.path.getsize(path), "age": at, "lines": last_lines(path, 1 << 16, 300)}


def events(folder: str) -> "list[str]":
    """The head's last events about jobs."""
    found = []
    lines = last_lines(folder + "/events/event_JOBS.log", 1 << 16, 100)
    for line in lines if isinstance(lines, list) else ():
        try:
            found.append(str(json.loads(line).get("message") or "")[:400])
        except (ValueError, AttributeError):
            found.append(line[:400])
    return [x for x in found if x]


def age(path: str) -> "float | None":
    """Seconds since the file was written."""
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return None


def of_another(pid: int, temp_dir: str) -> bool:
    """It writes its log into the session of another cluster on this machine: it neither ends nor works with this raylet."""
    here = os.path.realpath(temp_dir) + "/"
    logs = [link("/proc/%d/fd/%d" % (pid, n)) for n in (1, 2)]
    return any(SESSION.search(path) for path in logs) and not any(path.startswith(here) for path in logs)


def look(temp_dir: str) -> "dict[int, dict[str, Any]]":
    """CPU seconds and bytes read of this cluster's workers and drivers; whose it is not known of counts as its own."""
    found = {}
    for pid in pids():
        now = stat(pid)
        text = command(pid, now["state"], now["comm"]) if now else ""
        if now and WORKER.search(text) and not of_another(pid, temp_dir):
            found[pid] = {
                "cpu": now["cpu_s"],
                "read": (io_bytes(pid) or (0, 0))[0],
                "state": now["state"],
                "command": text[:200],
                "start_ticks": now["start_ticks"],
            }
    return found


def activity(window_s: float, temp_dir: str) -> "list[dict[str, Any]]":
    """What each did within the window."""
    before = look(temp_dir)
    time.sleep(window_s)
    after = look(temp_dir)
    both = {p: b for p, b in after.items() if p in before and b["start_ticks"] == before[p]["start_ticks"]}
    return [{"pid": p, "own_pid": own_pid(p), "namespace": namespace(p), "age": round(uptime() - b["start_ticks"] / HZ, 2),
             "command": b["command"], "state": b["state"], "cpu": b["cpu"] - before[p]["cpu"],
             "read": b["read"] - before[p]["read"]} for p, b in both.items()]  # fmt: skip


def interfaces() -> "list[str]":
    """Network interfaces that are up."""
    names = sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []
    return [n for n in names if (read("/sys/class/net/%s/operstate" % n) or "").strip() in ("up", "unknown")]


def gpu_use() -> "list[float] | None":
    """Use of each GPU in per cent; [] where there is none; None where there is one that could not be read."""
    if not glob.glob("/dev/nvidia[0-9]*") and not os.path.exists("/dev/kfd"):
        return []
    ask = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=True).stdout
        return [float(word) for word in said.decode("ascii", "replace").split()] or None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Everything in one answer."""
    folder = ask["temp_dir"] + "/session_latest/logs"
    try:
        disk = os.statvfs(ask["temp_dir"])
        free = disk.f_bavail * disk.f_frsize  # type: int | None
    except OSError:
        free = None
    ages = [a for a in (age(p) for p in glob.glob(folder + "/raylet*.out")) if a is not None]
    raylets = ray_processes("raylet", (ask["temp_dir"] + "/", *(["=%s " % ask["ip"]] if ask["ip"] else [])))
    raylet, held = raylets[0] if raylets else None, halted_of(raylets)
    beside = stopped_beside(raylet)
    workers = activity(ask["window_s"], ask["temp_dir"])  # the time between two looks at the raylet
    return {"raylet_age": min(ages) if ages else None, "raylet_alive": raylet is not None,
            "namespace": namespace(raylet["pid"]) if raylet else None,
            "raylet_state": raylet["state"] if raylet else "", "raylet_halted": still_halted(held),
            "stopped": still_stopped(beside),
            "versions": ray_version(raylet["pid"]) if raylet else None,
            "logs": logs(ask, raylet is not None), "autoscaler": scaler(folder), "events": events(folder),
            "activity": workers, "kernel": kernel(), "free": free,
            "interfaces": interfaces(), "gpu_use": gpu_use()}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
