"""A real FUSE mount: a read-only pass-through file system in a process of its own, which a test can kill."""

import os
import subprocess
import sys
import time
from pathlib import Path

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


def server(path: Path) -> int:
    """Pid of the process that serves the mount at `path`."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(path).encode() in words and any(w.endswith(b"passfs.py") for w in words):
                return int(entry.name)
    raise AssertionError(f"nobody serves {path}")


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
