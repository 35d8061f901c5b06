"""Reads what this machine and its processes use of their limits. Changes nothing. Python 3.6, standard library.

JSON argument: {match: pattern or "", names: [], limit_s: seconds for the look through /proc, names_s: for the names, late_s: after which a
name came late, near: share of a limit}. Answers with gauges (see runbooks/host/evidence.py) and with what could not be read.
"""

import json
import os
import re
import sys
import time
from typing import Any

from tasks.host.probes.host_disks import look
from tasks.remote.probes.names import resolve
from tasks.remote.probes.proc import command, link, matching, names, pids, read, stat, status

JOBS, MOST_FILES = 200, 20
IPC_LOCK, SYS_ADMIN, SYS_RESOURCE = 14, 21, 24
SMALL_LOCKED = 8 << 20  # what a process gets unasked: from the kernel (since 5.16; 64 KiB before) and from systemd
SHM, DEFAULT_SHM = "/dev/shm", 64 << 20  # noqa: S108 - read, never written
unread = []  # type: list[dict[str, str]]


def miss(what: str, reason: str, detail: str = "") -> None:
    """Remember that something was not read, once."""
    found = {"what": what, "reason": reason, "detail": detail}
    if found not in unread:
        unread.append(found)


def number(path: str) -> "int | None":
    """A number that stands alone in a file; None for `max`, and when it can't be read."""
    words = (read(path) or "").split()
    return int(words[0]) if words and words[0].isdigit() else None


def needed(path: str, what: str) -> "int | None":
    """A number without which the judgment is not whole."""
    found = number(path)
    if found is None:
        miss(what, "denied" if read(path) == "" else "tool-missing", path)
    return found


def gauge(subject: str, of: str, used: int, limit: "int | None", setting: str, **more: Any) -> "dict[str, Any]":
    """One answer."""
    return dict(more, subject=subject, of=of, used=used, limit=limit, setting=setting)


def limits(pid: int) -> "dict[str, int | None] | None":
    """Soft limits of a process, None for unlimited; None when they may not be read."""
    text = read("/proc/%d/limits" % pid)
    rows = re.findall(r"^(Max [a-z ]+?)\s{2,}(\S+)", text or "", re.M)
    return {name: None if soft == "unlimited" else int(soft) for name, soft in rows} or None


def capable(facts: "dict[str, str]", *bits: int) -> bool:
    """Whether it holds one of these capabilities, with which a limit does not hold it."""
    held = int(facts.get("CapEff") or "0", 16)
    return any(held >> bit & 1 for bit in bits)


def scan(end: float) -> "tuple[dict[int, dict[str, Any]], dict[int, set[str]], dict[int, int]]":
    """Every process with its user, threads and open files; inotify instances and watches of each user."""
    seen = {}  # type: dict[int, dict[str, Any]]
    instances, watches, users = {}, {}, set()  # type: dict[int, set[str]], dict[int, int], set[int]
    for pid in pids():
        if time.monotonic() > end:
            miss("open files of all processes", "timed-out", "%d of %d were read" % (len(seen), len(pids())))
            break
        now = stat(pid)
        if now is None or now["state"] in "ZX" or pid == os.getpid():
            continue
        user = int((status(pid).get("Uid") or "-1").split()[0])
        fds = names("/proc/%d/fd" % pid)
        seen[pid] = dict(now, uid=user, fds=None if fds is None else len(fds))
        if fds is None:
            users.add(user)
        for fd in fds or []:
            if link("/proc/%d/fd/%s" % (pid, fd)) == "anon_inode:inotify":
                count(pid, fd, user, instances, watches)
    if users:
        miss("open files of users %s" % ", ".join(map(str, sorted(users)[:8])), "denied", "ask as root")
    return seen, instances, watches


def count(pid: int, fd: str, user: int, instances: "dict[int, set[str]]", watches: "dict[int, int]") -> None:
    """One inotify instance; the same list of watches in a child is the one that it was born with."""
    lines = [x for x in (read("/proc/%d/fdinfo/%s" % (pid, fd), 8 << 20) or "").splitlines() if x.startswith("inotify")]
    key = "\n".join(lines) if lines else "%d %s" % (pid, fd)
    if key not in instances.setdefault(user, set()):
        instances[user].add(key)
        watches[user] = watches.get(user, 0) + len(lines)


def called(pid: int, now: "dict[str, Any]") -> str:
    """A process for a person."""
    return "pid %d (%s)" % (pid, command(pid, now["state"], now["comm"])[:2000])


def of_process(pid: int, now: "dict[str, Any]", users: "dict[int, int]", out: "dict[str, list[Any]]") -> None:
    """Its open files, locked memory and its user's threads against its own soft limits."""
    name, soft, facts = called(pid, now), limits(pid), status(pid)
    if soft is None:
        if os.path.isdir("/proc/%d" % pid):
            miss("limits of %s" % name, "denied")
        return
    if now["fds"] is None:
        miss("open files of %s" % name, "denied", "ask as root")
    else:
        of = soft.get("Max open files")
        out["files"].append(gauge(name, "open files", now["fds"], of, "its soft limit of open files", pid=pid))
    kb = [int((facts.get(k) or "0").split()[0]) for k in ("VmLck", "VmPin")]
    may = None if capable(facts, IPC_LOCK) else soft.get("Max locked memory")
    more = {"default": True} if may is not None and may <= SMALL_LOCKED and uses_rdma(pid) else {}
    out["locked"].append(gauge(name, "locked bytes", max(kb) << 10, may, "its soft limit of locked memory", pid=pid, **more))
    free = now["uid"] == 0 or capable(facts, SYS_ADMIN, SYS_RESOURCE)
    most = None if free else soft.get("Max processes")
    who, used = "user %d" % now["uid"], users[now["uid"]]
    out["threads"].append(gauge(who, "threads", used, most, "its soft limit of processes (%s)" % name, pid=pid))


def uses_rdma(pid: int) -> bool:
    """Whether it has an RDMA device open: the memory that it registers there is locked."""
    return any((link("/proc/%d/fd/%s" % (pid, fd)) or "").startswith("/dev/infiniband/uverbs") for fd in names("/proc/%d/fd" % pid) or [])


def of_machine(out: "dict[str, list[Any]]") -> None:
    """Open files and threads of the whole machine."""
    row = (read("/proc/sys/fs/file-nr") or "").split()
    if len(row) == 3:
        out["files"].append(gauge("this machine", "open files", int(row[0]) - int(row[1]), int(row[2]), "fs.file-max"))
    else:
        miss("fs.file-nr", "tool-missing", "/proc/sys/fs/file-nr")
    total = re.search(r"\d+/(\d+)", read("/proc/loadavg") or "")
    for setting in ("threads-max", "pid_max"):
        most = needed("/proc/sys/kernel/" + setting, "kernel." + setting)
        if total and most is not None:
            out["threads"].append(gauge("this machine", "threads", int(total.group(1)), most, "kernel." + setting))


def groups(pid: int) -> "list[str]":
    """Folders of its pids cgroup, its own first."""
    found = re.findall(r"^\d+:(pids|):(\S+)$", (read("/proc/%d/cgroup" % pid) or ""), re.M)
    for kind, path in sorted(found, reverse=True):
        root = "/sys/fs/cgroup/pids" if kind else "/sys/fs/cgroup"
        parts = [p for p in path.split("/") if p]
        if ".." not in parts and os.path.isdir(root):
            return [root + "".join("/" + p for p in parts[:n]) for n in range(len(parts), -1, -1)]
    return []


def of_groups(watched: "list[int]", out: "dict[str, list[Any]]") -> None:
    """pids.current against pids.max, and how often it said no, up the cgroups of these processes."""
    for folder in sorted({g for pid in watched for g in groups(pid)}):
        used, most = number(folder + "/pids.current"), number(folder + "/pids.max")
        if used is not None and most is not None:
            no = re.search(r"^max (\d+)", read(folder + "/pids.events") or "", re.M)
            more = {"refused": int(no.group(1)) if no else 0, "made": made(folder)}
            out["threads"].append(gauge("cgroup " + folder, "threads", used, most, "its pids.max", **more))


def made(folder: str) -> str:
    """What tells that group from a later one of the same name: the boot and its inode."""
    try:
        return "%s %d" % ((read("/proc/sys/kernel/random/boot_id") or "").strip(), os.stat(folder).st_ino)
    except OSError:
        return ""


def of_shm(watched: "list[int]", jobs: "set[int]", out: "dict[str, list[Any]]") -> None:
    """Shared memory of this machine and of every other mount namespace that these processes live in, each once."""
    found = {}  # type: dict[str, Any]
    for pid in [0, *watched]:
        base = "/proc/%d" % pid if pid else "/proc/self"
        whose = SHM + (" of pid %d" % pid if pid else " of this machine")
        text = read(base + "/mountinfo", 1 << 20)
        rows = [r.split() for r in (text or "").splitlines() if r.split()[4:5] == [SHM]]
        if text == "":
            miss(whose, "denied", "ask as root")
        if not rows:
            continue
        device = rows[-1][2]
        if device not in found:
            found[device] = one_shm(base, whose, rows[-1], pid)
        if found[device] and pid in jobs and found[device]["limit"] == DEFAULT_SHM:
            found[device]["default"] = True
    out["shm"] = [g for g in found.values() if g]


def one_shm(base: str, whose: str, row: "list[str]", pid: int) -> "dict[str, Any] | None":
    """One /dev/shm by its mount row; None when it can't be read."""
    kind = row[row.index("-") + 1] if "-" in row else "?"
    if kind not in ("tmpfs", "ramfs"):
        miss(whose, "failed", "it is %s, not tmpfs" % kind)
        return None
    try:
        s = os.statvfs((base + "/root" if pid else "") + SHM)
    except OSError as e:
        if os.path.isdir(base):
            miss(whose, "denied" if e.errno in (1, 13) else "failed", e.strerror or "")
        return None
    size, free = s.f_blocks * s.f_frsize, s.f_bfree * s.f_frsize
    return gauge(whose, "bytes", size - free, size or None, "the size of that tmpfs", pid=pid or None)


def of_inotify(instances: "dict[int, set[str]]", watches: "dict[int, int]", out: "dict[str, list[Any]]") -> None:
    """Instances and watches of each user."""
    for what, used in (("instances", {u: len(x) for u, x in instances.items()}), ("watches", watches)):
        setting = "fs.inotify.max_user_" + what
        most = needed("/proc/sys/" + setting.replace(".", "/"), setting)
        for user, n in sorted(used.items()) if most is not None else ():
            out["inotify"].append(gauge("user %d" % user, "inotify " + what, n, most, setting))


def chosen(seen: "dict[int, dict[str, Any]]", jobs: "set[int]", share: float) -> "list[int]":
    """The jobs' processes, else those with the most open files; and whoever is near (that `share`) its own limit of them."""
    busy = sorted((p for p in seen if seen[p]["fds"] is not None), key=lambda p: -seen[p]["fds"])
    near = [p for p in busy if (limits(p) or {}).get("Max open files") is not None
            and seen[p]["fds"] >= share * ((limits(p) or {}).get("Max open files") or 1 << 62)]  # fmt: skip
    return list(dict.fromkeys([*sorted(jobs)[:JOBS], *([] if jobs else busy[:MOST_FILES]), *near[:MOST_FILES]]))


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """All of it."""
    began = time.time()
    out = {k: [] for k in ("files", "threads", "locked", "shm", "inotify")}  # type: dict[str, list[Any]]
    seen, instances, watches = scan(time.monotonic() + ask["limit_s"])
    jobs = {p["pid"] for p in matching(ask["match"])} & set(seen) if ask["match"] else set()
    watched, users = chosen(seen, jobs, ask["near"]), {}  # type: list[int], dict[int, int]
    for now in seen.values():
        users[now["uid"]] = users.get(now["uid"], 0) + now["threads"]
    of_machine(out)
    for pid in watched:
        of_process(pid, seen[pid], users, out)
    of_groups(watched, out)
    of_shm(watched, jobs, out)
    of_inotify(instances, watches, out)
    found = resolve(ask["names"], ask["names_s"], ask["late_s"])
    return dict(out, **look(miss), jobs=len(jobs), names=found, unread=unread[:50], began=began, ended=time.time())


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # a resolver that hangs in a thread does not hold this program
