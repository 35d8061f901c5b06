"""A real FUSE mount: a read-only pass-through file system in a process of its own, which a test can kill."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.need import need_program

PROGRAM = """
import errno, os, sys
from mfusepy import FUSE, FuseOSError, Operations
KEYS = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")
class Pass(Operations):
    def __init__(self, root): self.root = root
    def at(self, path): return os.path.join(self.root, path.lstrip("/"))
    def getattr(self, path, fh=None):
        try: found = os.lstat(self.at(path))
        except OSError as e: raise FuseOSError(e.errno)
        return {k: getattr(found, k) for k in KEYS}
    def readdir(self, path, fh): return [".", ".."] + os.listdir(self.at(path))
    def read(self, path, size, off, fh):
        with open(self.at(path), "rb") as f:
            f.seek(off)
            return f.read(size)
FUSE(Pass(sys.argv[1]), sys.argv[2], foreground=True, ro=True, fsname="gcsfuse-like", allow_other=True)
"""

OF_A_USER = """
import ctypes, errno, json, os, sys, threading
from mfusepy import FUSE, FuseOSError, Operations
KEYS = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")
root, path, more = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
class Pass(Operations):
    use_ns = True
    def at(self, below):
        if more.get("errno"): raise FuseOSError(more["errno"])
        return os.path.join(root, below.lstrip("/"))
    def statfs(self, below): self.at(below); return {}
    def getattr(self, below, fh=None):
        found = os.lstat(self.at(below))
        return {k: int(getattr(found, k + "_ns", getattr(found, k))) for k in KEYS}
    def readdir(self, below, fh): return [".", ".."] + os.listdir(self.at(below))
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(fd, True)
if more.get("pid"):  # a mount that only that process' container has
    ns = os.open("/proc/%d/ns/mnt" % more["pid"], os.O_RDONLY)
    assert libc.setns(ns, 0x20000) == 0, os.strerror(ctypes.get_errno())
options = "fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (fd, more["user"], more["user"])
assert libc.mount(b"fuse-of-a-user", path.encode(), b"fuse.passfs", 6, options.encode()) == 0, ctypes.get_errno()
print("mounted", flush=True)
FUSE(Pass(), "/dev/fd/%d" % fd, foreground=True, nothreads=True)
"""


@contextmanager
def of_a_user(root: str, path: str, **more: int) -> "Iterator[subprocess.Popen[str]]":
    """A living mount without allow_root: only its `user` may look. Its server; `errno`: what it answers to everything; `pid`:
    a process whose mounts it joins. The server is ended after, the mount stays."""
    need_program("fusermount3", "fuse3")
    argv = [sys.executable, "-W", "ignore", "-c", OF_A_USER, root, path, json.dumps({"user": 65534, **more})]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert p.stdout is not None
        assert p.stdout.readline() == "mounted\n"
        yield p
    finally:
        p.kill()
        p.wait(10)


def write_program(folder: Path) -> Path:
    """`mount.sh ROOT PATH`: mounts in the background and returns when it is there, as gcsfuse does."""
    need_program("fusermount3", "fuse3")
    (folder / "passfs.py").write_text(PROGRAM)
    script = folder / "mount.sh"
    script.write_text(
        f'#!/bin/sh\nsetsid {sys.executable} {folder}/passfs.py "$1" "$2" >>{folder}/fuse.log 2>&1 </dev/null &\n'
        'for i in $(seq 100); do grep -q " $2 fuse" /proc/mounts && exit 0; sleep 0.1; done; exit 1\n'
    )
    script.chmod(0o755)
    return script


def mount(script: Path, root: Path, path: Path) -> int:
    """Mount and give the serving process's pid."""
    subprocess.run([str(script), str(root), str(path)], check=True, timeout=30)
    return server(path)


class Mounted(NamedTuple):
    """A mount that stands."""

    pid: int  # of its server
    path: Path
    command: tuple[str, str, str]  # mounts it again


@contextmanager
def mounted(folder: Path) -> Iterator[Mounted]:
    """A mount of `folder`/bucket, in which lies a file `weights`, on `folder`/mnt; every layer goes after."""
    script, root, path = write_program(folder), folder / "bucket", folder / "mnt"
    root.mkdir()
    path.mkdir()
    (root / "weights").write_text("w")
    try:
        yield Mounted(mount(script, root, path), path, (str(script), str(root), str(path)))
    finally:
        unmount(path)


def server(path: Path) -> int:
    """Pid of the process that serves the mount at `path`."""
    found = servers(path)
    assert found, f"nobody serves {path}"
    return found[0]


def servers(path: Path) -> list[int]:
    """Pids of all that serve, or have just served, a mount at `path`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(path).encode() in words and any(w.endswith(b"passfs.py") for w in words):
                found.append(int(entry.name))
    return found


def unmount(path: Path) -> None:
    """Lazily; every layer."""
    for _ in range(5):
        if f" {path} fuse" not in Path("/proc/mounts").read_text():
            return
        subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True, timeout=20)
        time.sleep(0.05)


def is_mounted(path: Path) -> bool:
    """True if `path` can be listed and is a mount."""
    try:
        next(path.iterdir(), None)
        return os.path.ismount(path)
    except OSError:
        return False
