"""Reads a container's host: memory, disks, devices, daemon, packages, kernel kills, processes. JSON in, JSON out.

Argument: id ("" unknown), disks, devices, sources (paths the container asks for), refused (paths that the engine's error
names), pidfile, socket (of the engine). Changes nothing.
"""

import glob
import json
import os
import re
import socket
import subprocess
import sys
import time
from typing import Any

from tasks.container.probes.host_packages import driver, packages, tail
from tasks.container.probes.host_places import places
from tasks.container.probes.host_shutdown import shutdown_began
from tasks.remote.probes.kernel_kills import kernel, monotonic_zero
from tasks.remote.probes.proc import boot_id, cgroup, command, names, pids, read, stat, status

SHM = "/dev/shm"  # noqa: S108 - read only
SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")  # of the engine that the machine's own unit starts
UNIT = ("ActiveState", "Result", "ActiveEnterTimestampMonotonic", "ActiveExitTimestampMonotonic")


def disk(path: str) -> "dict[str, Any] | None":
    """Size, free bytes, inodes of the file system at `path`; None when it can't be asked."""
    try:
        s = os.statvfs(path)
    except OSError:
        return None
    return {"path": path, "size_bytes": s.f_blocks * s.f_frsize, "free_bytes": s.f_bavail * s.f_frsize,
            "inodes": s.f_files, "inodes_free": s.f_favail, "read_only": bool(s.f_flag & os.ST_RDONLY)}  # fmt: skip


def meminfo() -> "dict[str, int]":
    """/proc/meminfo in bytes."""
    return {k: int(v) * 1024 for k, v in re.findall(r"^(\w+):\s+(\d+) kB", read("/proc/meminfo") or "", re.M)}


def booted_at() -> float:
    """Unix time of the boot; of the last start of process 1 where the machine is itself a container (LXC, nspawn)."""
    found = re.search(r"^btime (\d+)", read("/proc/stat", 1 << 20) or "", re.M)
    first = stat(1)
    return max(float(found.group(1)) if found else monotonic_zero(), started(first["start_ticks"]) if first else 0.0)


def daemon(pidfile: str, path: str) -> "dict[str, Any]":
    """The engine's daemon by its pid file, else by its name. `alive` None: no process was found, yet `path` accepts."""
    text = (read(pidfile) or "").strip()
    pid = int(text) if text.isdigit() else 0
    now = stat(pid) if pid else None
    if not text and pidfile == "/var/run/docker.pid":
        found = [s for s in map(stat, pids()) if s and s["comm"] == "dockerd" and s["state"] not in "ZX"]
        now = found[0] if len(found) == 1 else None
    alive = bool(now and now["state"] not in "ZX" and "docker" in now["comm"] + command(now["pid"], "", ""))
    if not alive or now is None:
        return {"alive": None if accepts(path) else False, "pid": None, "started_at": None}
    return {"alive": True, "pid": now["pid"], "started_at": started(now["start_ticks"])}


def unit(path: str) -> "dict[str, Any] | None":
    """What systemd says of the engine's unit: state, how it ended, and the Unix times of its last start and end in this boot."""
    if path not in SOCKETS:
        return None
    argv = ["systemctl", "show", "-p", ",".join(UNIT), "docker.service"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(x.split("=", 1) for x in done.stdout.decode("utf-8", "replace").splitlines() if "=" in x)
    if "ActiveState" not in said:
        return None
    at = [monotonic_zero() + int(said[n]) / 1e6 if said.get(n, "0") not in ("", "0") else None for n in UNIT[2:]]
    return {"state": said["ActiveState"], "result": said.get("Result", ""), "entered_at": at[0], "left_at": at[1]}


def accepts(path: str) -> bool:
    """True unless nobody listens at the socket: then it is not there, or refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        try:
            s.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError:  # denied, or its queue is full: somebody may be there
            return True
    return True


def started(ticks: int) -> float:
    """Unix time of a start given in clock ticks since boot."""
    since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return since + ticks / os.sysconf("SC_CLK_TCK")


def inside(ident: str) -> "dict[str, Any]":
    """Processes whose cgroup names the container, its first process first."""
    rows = []
    for pid in pids():
        now = stat(pid) if ident in cgroup(pid) else None
        if now is not None and now["state"] not in "ZX":
            inner = (status(pid).get("NSpid") or str(pid)).split()
            rows.append((int(inner[-1]), pid, command(pid, now["state"], now["comm"])))
    rows.sort()
    shm = disk("/proc/%d/root%s" % (rows[0][1], SHM)) if rows else None
    return {"shm": dict(shm, path=SHM) if shm else None, "pids": [r[1] for r in rows], "commands": [r[2][:1000] for r in rows],
            "readable": os.geteuid() == 0 or bool(rows)}  # fmt: skip


def exists(path: str) -> bool:
    """True when something is there, a dead mount too."""
    try:
        os.lstat(path)
    except OSError as e:
        return e.errno not in (2, 20)
    return True


def time_jumps() -> "list[str]":
    """Lines of the system log (else of the journal's last hour) that say that the clock was set, this boot."""
    lines = (tail("/var/log/syslog", 1 << 18) or journal()).splitlines()
    said = re.compile(r"Time has been changed|System clock was stepped|clock step|Forward time jump|time reset")
    return [line[:200] for line in lines if said.search(line)][-5:]


def journal() -> str:
    """What systemd and the keepers of the clock wrote; "" where there is no journal."""
    units = [
        "_SYSTEMD_UNIT=%s.service" % u for u in ("systemd-timesyncd", "chronyd", "chrony", "ntpd", "ntp", "ntpsec")
    ]
    argv = ["journalctl", "-b", "-q", "--no-pager", "-S", "-1h", "_PID=1", *(w for u in units for w in ("+", u))]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
        return done.stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Everything in one answer."""
    memory = meminfo()
    disks = [d for d in (disk(p) for p in ask["disks"]) if d]
    accel = sorted(glob.glob("/dev/accel*") + glob.glob("/dev/vfio/[0-9]*"))
    return {
        "boot_id": boot_id(), "booted_at": booted_at(), "clock": time.time(), "root": os.geteuid() == 0,
        "shutdown_began": shutdown_began(),
        "memory_total": memory.get("MemTotal", 0), "memory_available": memory.get("MemAvailable", 0),
        "disks": disks, "shm": disk(SHM),
        "nvidia": sorted("/dev/" + n for n in names("/dev") or [] if n.startswith("nvidia")), "accel": accel,
        "missing_devices": [p for p in ask["devices"] if not exists(p)],
        "missing_sources": [p for p in ask["sources"] if not exists(p)],
        "places": places(ask["sources"] + ask["refused"]), "driver": driver(), "unit": unit(ask["socket"]),
        "daemon": daemon(ask["pidfile"], ask["socket"]), "packages": packages(), "time_jumps": time_jumps(), "kernel": kernel(),
        "inside": inside(ask["id"]) if ask["id"] else None,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
