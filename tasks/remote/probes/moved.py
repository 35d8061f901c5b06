"""What processes did between two looks at all of them, and who in a container moved most. Part of a probe. Python 3.6.

A process that started after the first look counts with all that it did.
"""

from typing import Any

from tasks.remote.probes.proc import cgroup, container, io_bytes, pids, stat
from tasks.remote.probes.sockets import same_network

MOST = 4  # processes of a container that are named for each sign: if those that moved most are quiet, all are


def look() -> "dict[int, dict[str, Any]]":
    """Counters of every process."""
    found = {}
    for pid in pids():
        now = stat(pid)
        if now is not None:
            found[pid] = dict(now, io=io_bytes(pid))
    return found


def moved(now: "dict[str, Any]", before: "dict[int, dict[str, Any]]") -> "tuple[float | None, int | None]":
    """CPU seconds and I/O bytes since the first look (all of them, when it started after it)."""
    then = before.get(now["pid"])
    if then is None or then["start_ticks"] != now["start_ticks"]:
        then = {"cpu_s": 0.0, "io": (0, 0)}
    io = None if now["io"] is None or then["io"] is None else sum(now["io"]) - sum(then["io"])
    return now["cpu_s"] - then["cpu_s"], io


def difference(
    then: "dict[int, dict[str, int]] | None", now: "dict[int, dict[str, int]] | None", pid: int
) -> "int | None":
    """TCP bytes of a process between the looks; a connection that is new counts whole."""
    if then is None or now is None or not same_network(pid):
        return None
    old = then.get(pid, {})
    return sum(max(0, n - old.get(key, 0)) for key, n in now.get(pid, {}).items())


def rows_inside(
    table: "dict[int, dict[str, Any]]", first: "dict[int, dict[str, Any]]", sockets: "tuple[Any, Any]"
) -> "dict[str, list[dict[str, Any]]]":
    """Every live process of the second look that is in a container, by the container's id."""
    found = {}  # type: dict[str, list[dict[str, Any]]]
    for pid in sorted(table):
        box = container(cgroup(pid)) if table[pid]["state"] not in "ZX" else ""
        if box:
            cpu, io = moved(table[pid], first)
            tcp = difference(sockets[0], sockets[1], pid)
            row = {"pid": pid, "start_ticks": table[pid]["start_ticks"], "cpu_window_s": cpu, "io_window_bytes": io}
            found.setdefault(box, []).append(dict(row, sockets_moved_bytes=tcp))
    return found


def summed(box: str, rows: "list[dict[str, Any]]") -> "dict[str, Any]":
    """One container: how many processes, whose counters may not be read, and who moved most."""
    named = {}  # type: dict[int, dict[str, Any]]
    for sign in ("cpu_window_s", "io_window_bytes", "sockets_moved_bytes"):
        for row in sorted(rows, key=lambda r: -(r[sign] or 0))[:MOST]:
            named[row["pid"]] = row
    unread = [r["pid"] for r in rows if r["io_window_bytes"] is None]
    return {"container": box, "others": len(rows), "unread": unread[:20], "most": [named[p] for p in sorted(named)]}
