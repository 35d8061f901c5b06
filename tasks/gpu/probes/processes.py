"""Reads processes twice, a window apart: GPU holders, their families, and jobs. One JSON argument, one JSON answer.

Argument: window_s, looks, pids (that the driver names), jobs [{name, match}], cap. The first look takes the counters of
every process, so that whoever turns out to matter at the end has a window. Of each container, `inside` tells what its processes
did that are not described: whoever restarts it ends them too.
"""

import json
import os
import pwd
import re
import sys
import time
from typing import Any

from tasks.gpu.probes.torch_version import torch_version
from tasks.remote.probes.moved import difference, look, moved, rows_inside, summed
from tasks.remote.probes.proc import (
    HZ,
    MARK,
    ancestors,
    boot_id,
    cgroup,
    command,
    container,
    environ,
    in_container,
    link,
    names,
    namespace,
    nvidia_fds,
    read,
    stat,
    status,
    uptime,
    wait_until,
)
from tasks.remote.probes.sockets import listening, tcp_bytes

W_FLAGS = os.O_WRONLY | os.O_RDWR
RUN = re.compile(  # what names a run, its world and a rank of it; nothing else of an environment is looked at
    r"^(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|MASTER_ADDR|MASTER_PORT|TORCHELASTIC_RUN_ID|JAX_COORDINATOR_ADDRESS|"
    r"OMPI_COMM_WORLD_(RANK|SIZE)|PMIX_NAMESPACE|PMI_(RANK|SIZE|JOBID)|RAY_JOB_ID|SLURM_(JOB_ID|STEP_ID|PROCID|NTASKS))$"
)


def open_files(pid: int) -> "dict[str, tuple[int, int]]":
    """Regular files open for writing: path -> (offset, size)."""
    found = {}
    for fd in names("/proc/%d/fd" % pid) or []:
        path = link("/proc/%d/fd/%s" % (pid, fd))
        info = dict(re.findall(r"^(pos|flags):\s+(\d+)$", read("/proc/%d/fdinfo/%s" % (pid, fd)) or "", re.M))
        if not path.startswith("/") or path.startswith("/dev/") or len(info) < 2:
            continue
        if int(info["flags"], 8) & W_FLAGS and path not in found:
            found[path] = (int(info["pos"]), size_of("/proc/%d/fd/%s" % (pid, fd)))
    return found


def size_of(path: str) -> int:
    """Bytes of the file behind a descriptor, -1 when it is gone."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def threads_d(pid: int) -> int:
    """Threads in uninterruptible sleep (at most 2,000 are looked at)."""
    found = 0
    for tid in (names("/proc/%d/task" % pid) or [])[:2000]:
        text = read("/proc/%d/task/%s/stat" % (pid, tid)) or ""
        found += text[text.rfind(")") + 2 : text.rfind(")") + 3] == "D"
    return found


def chosen(table: "dict[int, dict[str, Any]]", ask: "dict[str, Any]") -> "tuple[dict[int, Any], list[int], int]":
    """Who matters ({pid: job}), who holds a device file, and of how many that could not be seen."""
    jobs = [(j["name"], re.compile(j["match"])) for j in ask["jobs"]]
    mine, named, holders, denied = ancestors(), set(ask["pids"]), [], 0
    found = {}  # type: dict[int, str]
    for pid, p in table.items():
        p["command"] = command(pid, p["state"], p["comm"])
        fds = nvidia_fds(pid) if p["state"] not in "ZX" else ()
        denied += fds is None
        p["nvidia_fds"] = fds or ()
        probe = pid in mine or MARK in p["command"]
        job = "" if probe else next((n for n, r in jobs if r.search(p["command"])), "")
        if fds:
            holders.append(pid)
        if fds or job or pid in named:
            found[pid] = job
    return found, holders, denied


def families(table: "dict[int, dict[str, Any]]", core: "dict[int, str]") -> "dict[int, list[int]]":
    """Children of every process."""
    kids = {}  # type: dict[int, list[int]]
    for pid, p in table.items():
        kids.setdefault(p["ppid"], []).append(pid)
    for pid in core:
        kids.setdefault(pid, [])
    return kids


def below(pid: int, kids: "dict[int, list[int]]") -> "list[int]":
    """All descendants."""
    found, todo = [], list(kids.get(pid, []))  # type: list[int], list[int]
    while todo and len(found) < 5000:
        one = todo.pop()
        found.append(one)
        todo += kids.get(one, [])
    return found


def user(number: int) -> str:
    """Name of a user id, or "" where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return ""


def describe(
    pid: int, table: "dict[int, Any]", kids: "dict[int, list[int]]", first: "dict[int, Any]"
) -> "dict[str, Any]":
    """One process as the judgment wants it, but for what needs two looks at files and sockets."""
    p, more, up = table[pid], status(pid), uptime()
    cpu, io = moved(p, first)
    rest = [moved(table[k], first) for k in below(pid, kids) if table[k]["state"] not in "ZX"]
    parent, group = table.get(p["ppid"]), cgroup(pid)
    numbers = [int(n) for n in (more.get("Uid") or "-1").split()]
    return {
        "pid": pid, "start_ticks": p["start_ticks"], "age_s": round(max(0.0, up - p["start_ticks"] / HZ), 2),
        "state": p["state"], "wchan": (read("/proc/%d/wchan" % pid) or "").strip("0 \n"),
        "ppid": p["ppid"], "parent_state": parent["state"] if parent else "",
        "parent_command": parent["command"] if parent else "", "children": kids.get(pid, []),
        "live_children": [k for k in kids.get(pid, []) if table[k]["state"] not in "ZX"],
        "pgid": p["pgid"], "sid": p["sid"], "uid": numbers[0], "user": user(numbers[0]), "command": p["command"],
        "cgroup": group, "container": container(group), "pid_namespace": namespace(pid),
        "ns_pids": [int(n) for n in (more.get("NSpid") or "").split()], "tracer": int(more.get("TracerPid") or 0),
        "threads": p["threads"], "threads_d": threads_d(pid), "cpu_s": p["cpu_s"], "cpu_window_s": cpu,
        "read_bytes": p["io"][0] if p["io"] else None, "written_bytes": p["io"][1] if p["io"] else None,
        "io_window_bytes": io, "children_cpu_window_s": sum(c or 0.0 for c, _ in rest),
        "children_io_window_bytes": sum(i or 0 for _, i in rest), "nvidia_fds": p["nvidia_fds"],
        "listening": listening(pid), "run": environ(pid, RUN), "torch": torch_version(pid, p["state"]),
    }  # fmt: skip


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Two looks, with looks at the states in between."""
    began, window = time.monotonic(), float(ask["window_s"])
    first, sockets = look(), tcp_bytes()
    core, _, _ = chosen(first, ask)
    files, states = {p: open_files(p) for p in core}, {p: [first[p]["state"]] for p in core}
    for n in range(1, int(ask["looks"])):
        wait_until(began + window * n / (int(ask["looks"]) - 1))
        for pid in list(states):
            now = stat(pid)
            states[pid] += [now["state"]] if now else ["gone"]
    table, taken = look(), time.monotonic() - began
    core, holders, denied = chosen(table, ask)
    kids, bytes_now = families(table, core), tcp_bytes() if window else None
    wanted = set(core) | {table[p]["ppid"] for p in core} | {k for p in core for k in below(p, kids)}
    found = []
    for pid in sorted(p for p in wanted if p in table and (p > 1 or p in core))[: int(ask["cap"])]:
        one = describe(pid, table, kids, first)
        now = open_files(pid) if window else {}
        then = files.get(pid, now if pid in first else {})
        one["writing"] = [p for p, at in now.items() if then.get(p) != at]
        one["states"] = states.get(pid, []) + ([] if pid in states else [one["state"]])
        one["sockets_moved_bytes"] = difference(sockets, bytes_now, pid)
        one["job"] = core.get(pid, "")
        found.append(one if window else dict(one, cpu_window_s=None, io_window_bytes=None))
    rows = rows_inside(table, first, (sockets, bytes_now)) if window else {}
    inside = rest_of(rows, table, {one["pid"] for one in found})
    return {"processes": found, "inside": inside, "left_out": max(0, len(wanted) - int(ask["cap"])), "holders": holders,
            "denied": denied, "window_s": taken if window else 0.0, "facts": facts()}  # fmt: skip


def rest_of(
    inside: "dict[str, list[dict[str, Any]]]", table: "dict[int, Any]", known: "set[int]"
) -> "list[dict[str, Any]]":
    """Of each container those processes that are not described."""
    told = {pid: table[pid]["command"][:120] for rows in inside.values() for pid in (r["pid"] for r in rows)}
    return [summed(box, [dict(r, command=told[r["pid"]]) for r in inside[box] if r["pid"] not in known]) for box in sorted(inside)]


def facts() -> "dict[str, Any]":
    """The node itself."""
    why = in_container()
    return {"boot_id": boot_id(), "uptime_s": uptime(), "in_container": bool(why),
            "container_proof": why, "root": os.geteuid() == 0, "hostname": os.uname().nodename,
            "clock_s": time.time()}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
