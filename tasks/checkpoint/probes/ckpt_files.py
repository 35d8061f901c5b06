"""The files of one checkpoint on a node: which there are, what identifies them, how their bytes are read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from runbooks.checkpoint.parsers.types import Blob
from tasks.remote.probes.below import open_below

MOST_FILES = 20_000


def file_blob(top: str, path: str, name: str, size: int) -> Blob:
    """A file below `top` in ranges, no link followed; opened for each read so that thousands need no descriptors."""

    def read(offset: int, length: int) -> bytes:
        fd = open_below(top, os.path.relpath(path, top), os.O_RDONLY)
        try:
            return _full(fd, offset, length)
        finally:
            os.close(fd)

    return Blob(name, size, read)


def _full(fd: int, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    while len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def members(path: str) -> dict[str, os.stat_result]:
    """Regular files of a checkpoint, relative name -> stat; a file is its own only member."""
    top = os.lstat(path)
    if stat.S_ISLNK(top.st_mode):
        raise OSError(errno.ELOOP, "a symbolic link, which is not followed", path)
    if not stat.S_ISDIR(top.st_mode) and not stat.S_ISREG(top.st_mode):
        raise OSError(errno.EINVAL, "neither a file nor a folder", path)
    if not stat.S_ISDIR(top.st_mode):
        return {os.path.basename(path): top}
    found: dict[str, os.stat_result] = {}
    for folder, folders, names in os.walk(path):
        for name in names + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            full = os.path.join(folder, name)
            seen = os.lstat(full)
            if stat.S_ISLNK(seen.st_mode):
                raise OSError(errno.ELOOP, "a symbolic link, which is not followed", full)
            if stat.S_ISREG(seen.st_mode):
                found[os.path.relpath(full, path)] = seen
        if len(found) > MOST_FILES:
            raise OSError(errno.E2BIG, "more files than are looked at", path)
    return found


def identity(found: dict[str, os.stat_result]) -> str:
    """Changes when any file is written, replaced, added or removed."""
    text = "\n".join("%s %d %d %d" % (n, s.st_size, s.st_mtime_ns, s.st_ino) for n, s in sorted(found.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def open_set(path: str, top: str = "") -> tuple[dict[str, os.stat_result], dict[str, Blob]]:
    """Members and blobs of one checkpoint; no part of their paths below `top` (else: below its own folder) is a link."""
    top = top or os.path.dirname(path)
    found = members(path)
    folder = stat.S_ISDIR(os.lstat(path).st_mode)
    return found, {n: file_blob(top, os.path.join(path, n) if folder else path, n, s.st_size) for n, s in found.items()}


def beside(path: str, blobs: dict[str, Blob]) -> None:
    """Adds `<file>.sha256` and the like that lie beside a single file."""
    for ending in (".sha256", ".md5"):
        if os.path.isfile(path + ending):
            name = os.path.basename(path) + ending
            blobs[name] = file_blob(os.path.dirname(path), path + ending, name, os.path.getsize(path + ending))
