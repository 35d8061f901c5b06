"""Small file systems of a test's own (tmpfs mounts): really full, out of inodes, read-only. Needs root, as CI has."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def tmpfs(path: Path, size: str = "2m", inodes: int = 200) -> Iterator[Path]:
    """A mounted tmpfs; unmounted at the end whatever happens."""
    assert os.geteuid() == 0, "small file systems need root: run the tests as root or in the CI container"
    path.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes},mode=0755", "tmpfs", str(path))
    try:
        yield path
    finally:
        _run("umount", "-l", str(path))


@contextlib.contextmanager
def ext4(folder: Path, mib: int = 16, *more: str) -> Iterator[Path]:
    """A mounted ext4 image with its usual reserve for root; `more` go to mkfs."""
    image, mount = folder / "disk.img", folder / "mnt"
    mount.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as f:
        f.truncate(mib << 20)
    _run("mkfs.ext4", "-q", "-F", "-m", "20", *more, str(image))
    _run("mount", "-o", "loop,noatime", str(image), str(mount))
    try:
        yield mount
    finally:
        _run("umount", "-l", str(mount))


@contextlib.contextmanager
def quota(folder: Path, limit: str = "3M") -> Iterator[Path]:
    """A folder with a quota of its own on a mounted btrfs image that has room."""
    assert shutil.which("mkfs.btrfs"), "install btrfs-progs: apt-get install btrfs-progs"
    image, mount = folder / "disk.img", folder / "mnt"
    mount.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as f:
        f.truncate(160 << 20)
    _run("mkfs.btrfs", "-q", "-f", str(image))
    _run("mount", "-o", "loop", str(image), str(mount))
    try:
        _run("btrfs", "quota", "enable", str(mount))
        _run("btrfs", "subvolume", "create", str(mount / "ours"))
        _run("btrfs", "qgroup", "limit", limit, str(mount / "ours"))
        yield mount / "ours"
    finally:
        _run("umount", "-l", str(mount))


def break_device(path: Path) -> None:
    """Takes all but 1 MiB of the device below an `ext4()` without journal away: the kernel can't read it, and says so."""
    _run("sync", "-f", str(path))
    for file in path.rglob("*"):
        if file.is_file():
            with file.open("rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    image = path.with_name("disk.img")
    with image.open("r+b") as f:
        os.fsync(f.fileno())
        os.truncate(image, 1 << 20)
    device = next(x.split()[0] for x in Path("/proc/mounts").read_text().splitlines() if x.split()[1] == str(path))
    _run("losetup", "-c", device)


def read_only(path: Path) -> None:
    """Remounts it read-only."""
    _run("mount", "-o", "remount,ro", str(path))


def fill(path: Path, keep: int = 0) -> None:
    """Fills the file system to the last byte, but `keep`."""
    with contextlib.suppress(OSError), (path / "filler").open("wb") as f:
        while True:
            f.write(b"x" * 4096)
            f.flush()
    if keep:
        os.truncate(path / "filler", max(0, (path / "filler").stat().st_size - keep))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv[0]}: {done.stderr.strip()}"
