"""Reads which processes have files of a tier open or mapped, also those that see it under another path (containers)."""

from __future__ import annotations

import contextlib
import os
from typing import Any

INITIAL_PIDS = "pid:[4026531836]"  # the machine's own pid namespace (Linux: PROC_PID_INIT_INO)
OWN_MOUNTS = ("overlay", "tmpfs")  # of a container: nobody outside of it uses them
MOST_NAMES = 200_000


def holders(root: str, fs_type: str = "") -> dict[str, Any]:
    """Processes with files open below the tier; `all` says whether every process could be looked at."""
    real, out = os.path.realpath(root), []
    files, complete = _files(real)
    inside = os.path.exists("/proc/self/ns/pid") and os.readlink("/proc/self/ns/pid") != INITIAL_PIDS
    if inside:
        complete = complete and fs_type in OWN_MOUNTS
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid == str(os.getpid()):
            continue
        try:
            out.extend(_of_process(pid, real, files))
        except PermissionError:
            complete = complete and pid == "1" and not inside  # a machine's init reads no checkpoints
        except OSError:
            continue  # it ended meanwhile
    return {"all": complete, "list": out[:200]}


def _files(real: str) -> tuple[dict[str, dict[int, str]], bool]:
    found: dict[str, dict[int, str]] = {}
    count = 0
    for folder, _, names in os.walk(real):
        for name in names:
            full = os.path.join(folder, name)
            try:
                found.setdefault(name, {})[os.lstat(full).st_ino] = os.path.relpath(full, real)
            except OSError:
                continue
        count += len(names)
        if count > MOST_NAMES:
            return found, False
    return found, True


def _of_process(pid: str, real: str, files: dict[str, dict[int, str]]) -> list[dict[str, Any]]:
    out: dict[str, bool] = {}
    for fd in os.listdir("/proc/%s/fd" % pid):
        try:
            target = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            path = _below(target, real, files, lambda fd=fd: _inode_of(pid, fd))
            if path:
                out[path] = out.get(path, False) or _flags(pid, fd) & 3 != 0
        except OSError:
            continue
    with contextlib.suppress(FileNotFoundError):
        inside = os.readlink("/proc/%s/cwd" % pid)
        if inside.startswith(real + "/"):  # it reaches what lies there whatever the folder is called
            out.setdefault(os.path.relpath(inside, real), False)
    for path, writing in _mapped(pid, real, files):
        out[path] = out.get(path, False) or writing
    return [_holder(pid, path, writing) for path, writing in out.items()]


def _below(target: str, real: str, files: dict[str, dict[int, str]], inode: Any) -> str:
    """The path below the tier that a link names, seen from here or by inode from another mount namespace."""
    if target.startswith(real + "/"):
        return os.path.relpath(target, real)
    known = files.get(target.rpartition("/")[2])
    return known.get(inode(), "") if known and target.startswith("/") else ""


def _inode_of(pid: str, fd: str) -> int:
    with open("/proc/%s/fdinfo/%s" % (pid, fd), encoding="ascii") as f:
        found = next((int(line.split()[1]) for line in f if line.startswith("ino:")), 0)
    return found or os.stat("/proc/%s/fd/%s" % (pid, fd)).st_ino  # before Linux 5.14


def _flags(pid: str, fd: str) -> int:
    with open("/proc/%s/fdinfo/%s" % (pid, fd), encoding="ascii") as f:
        return next((int(line.split()[1], 8) for line in f if line.startswith("flags:")), 0)


def _mapped(pid: str, real: str, files: dict[str, dict[int, str]]) -> list[tuple[str, bool]]:
    """Files that are mapped into memory (torch.load with mmap closes the file and keeps the mapping)."""
    out = []
    with open("/proc/%s/maps" % pid, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.rstrip("\n").split(None, 5)
            if len(words) == 6 and words[5].startswith("/"):
                path = _below(words[5], real, files, lambda words=words: int(words[4]))
                if path:
                    out.append((path, "w" in words[1] and "s" in words[1]))
    return out


def _holder(pid: str, path: str, writing: bool) -> dict[str, Any]:
    with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as f:
        start = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/%s/cmdline" % pid, "rb") as f:
        command = f.read(2000).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return {"pid": int(pid), "start_ticks": start, "command": command, "path": path, "writing": writing}
