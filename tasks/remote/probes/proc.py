"""Reads /proc for the other probes, in front of whose text it is sent. Python 3.6, standard library.

Nothing here raises for a process that ended meanwhile: it gives None, or "" for a text that may not be read.
"""

import errno
import os
import re
import select
import stat as statbits
import time
from typing import Any

MARK = "gpu-runbooks-probe"  # stands in the arguments of every probe, so that none takes another for a job
HZ = os.sysconf("SC_CLK_TCK")
HEX64 = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel: the namespace of the machine itself


def read(path: str, limit: int = 1 << 16) -> "str | None":
    """The file as text; None when it is gone, "" when it may not be read. A pipe or device is not read: it may never end."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
            return f.read(limit).decode("utf-8", "replace") if statbits.S_ISREG(os.fstat(f.fileno()).st_mode) else ""
    except OSError as e:
        return "" if e.errno in (errno.EACCES, errno.EPERM) else None


def link(path: str) -> str:
    """Where the link points, or ""."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def names(path: str) -> "list[str] | None":
    """Names in a folder; None when it may not be read, [] when it is gone."""
    try:
        return os.listdir(path)
    except OSError as e:
        return None if e.errno in (errno.EACCES, errno.EPERM) else []


def boot_id() -> str:
    """This boot's id."""
    return (read("/proc/sys/kernel/random/boot_id") or "").strip()


def pids() -> "list[int]":
    """Every process that this namespace shows."""
    return sorted(int(n) for n in (names("/proc") or []) if n.isdigit())


def stat(pid: int) -> "dict[str, Any] | None":
    """State, family, start and CPU seconds from /proc/PID/stat; None when it is gone."""
    text = read("/proc/%d/stat" % pid)
    if not text or ")" not in text:
        return None
    comm = text[text.index("(") + 1 : text.rindex(")")]
    f = text[text.rindex(")") + 2 :].split()
    numbers = {"ppid": int(f[1]), "pgid": int(f[2]), "sid": int(f[3]), "threads": int(f[17])}
    cpu = (int(f[11]) + int(f[12])) / HZ
    return dict(numbers, pid=pid, comm=comm, state=f[0], start_ticks=int(f[19]), cpu_s=cpu, flags=int(f[6]))


def same(pid: int, start_ticks: int) -> "dict[str, Any] | None":
    """Its stat while (pid, start) still is that process; None when it is gone or the number was given to another."""
    now = stat(pid)
    return now if now is not None and now["start_ticks"] == start_ticks else None


def io_bytes(pid: int) -> "tuple[int, int] | None":
    """Bytes asked to be read and written since start (rchar, wchar), or None where that is not allowed."""
    text = read("/proc/%d/io" % pid)
    found = dict(re.findall(r"^(rchar|wchar): (\d+)$", text or "", re.M))
    return (int(found["rchar"]), int(found["wchar"])) if len(found) == 2 else None


def status(pid: int) -> "dict[str, str]":
    """/proc/PID/status as name -> text."""
    lines = (read("/proc/%d/status" % pid) or "").splitlines()
    return {k: v.strip() for k, _, v in (line.partition(":") for line in lines)}


def namespace(pid: int) -> "int | None":
    """Inode of its PID namespace; None when it is gone or may not be looked at."""
    found = re.sub(r"\D", "", link("/proc/%d/ns/pid" % pid))
    return int(found) if found else None


def own_pid(pid: int) -> int:
    """The number by which it knows itself: its innermost one. 0 when it is gone."""
    return int((status(pid).get("NSpid") or str(pid if stat(pid) else 0)).split()[-1])


def uptime() -> float:
    """Seconds since the boot."""
    return float((read("/proc/uptime") or "0").split()[0])


def uid(pid: int) -> int:
    """Real user id, -1 when it is gone."""
    return int((status(pid).get("Uid") or "-1").split()[0])


def printable(text: str) -> str:
    """`text` on one line: control characters as ?, so that a name can neither forge a line nor move a cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def command(pid: int, state: str, comm: str) -> str:
    """Its full command line in one line; [comm] for kernel threads, Z, and when reading it would hang (state D)."""
    path = "/proc/%d/cmdline" % pid
    raw = guarded(path) if state == "D" else read(path)
    args = [a for a in (raw or "").rstrip("\0").split("\0") if a] if raw else []
    return printable(" ".join(args)[:4096]) if args else "[%s]" % printable(comm)


def environ(pid: int, keep: "re.Pattern[str]") -> "dict[str, str] | None":
    """Its environment, only names that match; {} when it is gone, None when it may not be read or a title overwrote it."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as f:
            raw = f.read(8 << 20).decode("utf-8", "replace")  # the kernel's limit is 6 MiB
    except (FileNotFoundError, ProcessLookupError):
        return {}
    except OSError:
        return None
    pairs = [e.split("=", 1) for e in raw.split("\0") if "=" in e]
    if not pairs and re.search("libtorch|libcuda", read("/proc/%d/maps" % pid, 4 << 20) or ""):
        return None  # a title that was set (setproctitle) has overwritten it
    return {k: v for k, v in pairs if keep.match(k)}


def guarded(path: str, wait_s: float = 1.0) -> str:
    """The file, read in a child that is left behind if the kernel doesn't answer (a stuck process holds a lock)."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(w, (read(path) or "").encode("utf-8", "replace")[:32768])
        os._exit(0)
    os.close(w)
    ready, _, _ = select.select([r], [], [], wait_s)
    text = os.read(r, 65536).decode("utf-8", "replace") if ready else ""
    os.close(r)
    if ready:
        os.waitpid(child, 0)
    else:
        os.kill(child, 9)
        os.waitpid(child, os.WNOHANG)
    return text


def cgroup(pid: int) -> str:
    """The longest of its cgroup paths ("" at the root or when unreadable): with v1 and v2 mounted they may differ."""
    lines = (read("/proc/%d/cgroup" % pid) or "").splitlines()
    paths = [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
    longest = max(paths, key=len) if paths else ""
    return "" if longest == "/" else longest


def container(path: str) -> str:
    """The container id in a cgroup path (Docker, containerd, CRI-O, Podman: 64 hex digits), or ""."""
    found = HEX64.findall(path)
    return str(found[-1]) if found else ""


def nvidia_fds(pid: int) -> "tuple[str, ...] | None":
    """GPU device files (/dev/nvidia*, AMD's /dev/kfd) that it holds open; None when its descriptors may not be read."""
    fds = names("/proc/%d/fd" % pid)
    if fds is None:
        return None
    found = {link("/proc/%d/fd/%s" % (pid, fd)) for fd in fds}
    return tuple(sorted(p for p in found if p.startswith("/dev/nvidia") or p == "/dev/kfd"))


def in_container() -> str:
    """Words that say why this is a container, or "" on a machine of its own.

    /.dockerenv alone says nothing: a virtual machine booted from an image has it too.
    """
    space = namespace(os.getpid())
    if space and space != FIRST_PID_NAMESPACE:
        return "PID namespace %d is not the machine's own" % space
    kind = [e for e in (read("/proc/1/environ") or "").split("\0") if e.startswith("container=")]
    groups = re.search(r"docker|kubepods|containerd|libpod|lxc", cgroup(os.getpid()))
    if kind or groups:
        return kind[0] if kind else "its cgroup names %s" % (groups.group(0) if groups else "")
    roots = [m.split() for m in (read("/proc/self/mountinfo", 1 << 20) or "").splitlines() if m.split()[4:5] == ["/"]]
    marks = [p for p in ("/.dockerenv", "/run/.containerenv") if os.path.exists(p)]
    overlay = bool(roots) and "overlay" in roots[-1][6:]
    return "%s exists and / is an overlay" % marks[0] if marks and overlay else ""


def ancestors() -> "set[int]":
    """This probe, and every process above it."""
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        now = stat(pid)
        pid = now["ppid"] if now else 0
    return found


def matching(pattern: str) -> "list[dict[str, Any]]":
    """Processes whose command line matches `pattern`: not probes, not their parents, not what has ended (Z, X)."""
    mine, found = ancestors(), []
    for pid in pids():
        now = stat(pid)
        if now is None or pid in mine or now["state"] in "ZX":
            continue
        text = command(pid, now["state"], now["comm"])
        if MARK not in text and re.search(pattern, text):
            found.append(dict(now, command=text))
    return found


def wait_until(end: float) -> None:
    """Sleep up to that monotonic time."""
    time.sleep(max(0.0, end - time.monotonic()))
