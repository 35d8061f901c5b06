"""Small file systems of a test's own (tmpfs mounts): really full, out of inodes, read-only. Needs root, as CI has."""

from __future__ import annotations

import contextlib
import os
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
def ext4(folder: Path, mib: int = 16) -> Iterator[Path]:
    """A mounted ext4 image with its usual reserve for root."""
    image, mount = folder / "disk.img", folder / "mnt"
    mount.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as f:
        f.truncate(mib << 20)
    _run("mkfs.ext4", "-q", "-F", "-m", "20", str(image))
    _run("mount", "-o", "loop", str(image), str(mount))
    try:
        yield mount
    finally:
        _run("umount", "-l", str(mount))


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
