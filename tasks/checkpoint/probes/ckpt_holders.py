"""Reads which processes have files of a tier open or mapped, also those that see it under another path (containers)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

INITIAL_PIDS = "pid:[4026531836]"  # the machine's own pid namespace (Linux: PROC_PID_INIT_INO)
OWN_MOUNTS = ("overlay", "tmpfs")  # of a container: nobody outside of it uses them
ONE_DEVICE = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs")  # one number however often, and wherever, it is mounted
MOST_NAMES = 200_000


class _Tier(NamedTuple):
    """What lies below a tier: its real path, file names by inode, and its device ("" where that tells nothing)."""

    real: str
    files: dict[str, dict[int, str]]
    device: str


def holders(root: str, fs_type: str = "") -> dict[str, Any]:
    """Processes with files open below the tier; `all` says whether every process could be looked at."""
    real, out = os.path.realpath(root), []
    tier, complete = _tier(real, fs_type)
    inside = os.path.exists("/proc/self/ns/pid") and os.readlink("/proc/self/ns/pid") != INITIAL_PIDS
    if inside:
        complete = complete and fs_type in OWN_MOUNTS
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid == str(os.getpid()):
            continue
        try:
            out.extend(_of_process(pid, tier))
        except PermissionError:
            complete = complete and pid == "1" and not inside  # a machine's init reads no checkpoints
        except OSError:
            continue  # it ended meanwhile
    return {"all": complete, "list": out[:200]}


def _tier(real: str, fs_type: str) -> tuple[_Tier, bool]:
    found: dict[str, dict[int, str]] = {}
    devices: set[int] = set()
    count = 0
    for folder, _, names in os.walk(real):
        for name in names:
            full = os.path.join(folder, name)
            try:
                seen = os.lstat(full)
                found.setdefault(name, {})[seen.st_ino] = os.path.relpath(full, real)
                devices.add(seen.st_dev)
            except OSError:
                continue
        count += len(names)
        if count > MOST_NAMES:
            return _Tier(real, found, ""), False
    alone = fs_type in ONE_DEVICE and len(devices) == 1
    return _Tier(real, found, _device_of(real) if alone else ""), True


def _device_of(path: str) -> str:
    fd = os.open(path, os.O_PATH)
    try:
        return _device("self", str(fd))
    finally:
        os.close(fd)


def _device(pid: str, fd: str) -> str:
    """`major:minor` of the file system that a descriptor is on; "" where its mount is listed no more."""
    mount = _fdinfo(pid, fd, "mnt_id:")
    with open("/proc/%s/mountinfo" % pid, encoding="utf-8", errors="surrogateescape") as f:
        return next((words[2] for words in (line.split(None, 3) for line in f) if words[0] == mount), "")


def _fdinfo(pid: str, fd: str, name: str) -> str:
    with open("/proc/%s/fdinfo/%s" % (pid, fd), encoding="ascii") as f:
        return next((line.split()[1] for line in f if line.startswith(name)), "")


def _of_process(pid: str, tier: _Tier) -> list[dict[str, Any]]:
    out: dict[str, bool] = {}
    for fd in os.listdir("/proc/%s/fd" % pid):
        try:
            target = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            path = _below(target, tier, partial(_inode_of, pid, fd), partial(_device, pid, fd))
            if path:
                out[path] = out.get(path, False) or _flags(pid, fd) & 3 != 0
        except OSError:
            continue
    with contextlib.suppress(FileNotFoundError):
        inside = os.readlink("/proc/%s/cwd" % pid)
        if inside.startswith(tier.real + "/"):  # it reaches what lies there whatever the folder is called
            out.setdefault(os.path.relpath(inside, tier.real), False)
    for path, writing in _mapped(pid, tier):
        out[path] = out.get(path, False) or writing
    return [_holder(pid, path, writing) for path, writing in out.items()]


def _below(target: str, tier: _Tier, inode: Callable[[], int], device: Callable[[], str]) -> str:
    """The path below the tier that a link names, seen from here or by inode from another mount namespace."""
    if target.startswith(tier.real + "/"):
        return os.path.relpath(target, tier.real)
    known = tier.files.get(target.rpartition("/")[2])
    if not known or not target.startswith("/"):
        return ""
    found = known.get(inode(), "")
    return found if not (found and tier.device) or device() in ("", tier.device) else ""


def _inode_of(pid: str, fd: str) -> int:
    return int(_fdinfo(pid, fd, "ino:") or 0) or os.stat("/proc/%s/fd/%s" % (pid, fd)).st_ino  # before Linux 5.14


def _flags(pid: str, fd: str) -> int:
    return int(_fdinfo(pid, fd, "flags:") or "0", 8)


def _mapped(pid: str, tier: _Tier) -> list[tuple[str, bool]]:
    """Files that are mapped into memory (torch.load with mmap closes the file and keeps the mapping)."""
    out = []
    with open("/proc/%s/maps" % pid, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.rstrip("\n").split(None, 5)
            if len(words) == 6 and words[5].startswith("/"):
                path = _below(words[5], tier, partial(int, words[4]), partial(_mounted_as, words[3]))
                if path:
                    out.append((path, "w" in words[1] and "s" in words[1]))
    return out


def _mounted_as(device: str) -> str:
    """A mapping's `fd:01` is a mount's `253:1`."""
    major, _, minor = device.partition(":")
    return "%d:%d" % (int(major, 16), int(minor, 16))


def _holder(pid: str, path: str, writing: bool) -> dict[str, Any]:
    with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as f:
        start = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/%s/cmdline" % pid, "rb") as f:
        command = f.read(2000).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return {"pid": int(pid), "start_ticks": start, "command": command, "path": path, "writing": writing}
