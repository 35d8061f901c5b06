"""Copies a set of blobs to a temporary name beside its target: resumable, fsynced, compared. Python 3.8, standard
library only."""

from __future__ import annotations

import contextlib
import os

from runbooks.checkpoint.parsers.types import Blob
from tasks.checkpoint.probes.ckpt_journal import Journal
from tasks.remote.probes.below import Linked, open_file, open_folder
from tasks.remote.probes.refused import Refused

CHUNK = 8 << 20


def temporary_name(target: str, identity: str) -> str:
    """A name that no loader picks, the same for the same source, so that a copy that broke off goes on."""
    return "%s.incoming-%s.tmp" % (target, identity[:8])


def journal_name(target: str, identity: str) -> str:
    """Where a download remembers what it has."""
    return "%s.incoming-%s.sums.tmp" % (target, identity[:8])


def copy_set(
    source: dict[str, Blob], root: str, name: str, folder: bool, identity: str, journal: Journal | None = None
) -> str:
    """The temporary path below `root` with every byte of the source, on disk. Raises Refused if the name is taken, or if
    a part of a path below `root` is a link: nothing is written through one."""
    target = os.path.join(root, name)
    if os.path.lexists(target):
        raise Refused("would-overwrite", "%s is there, and nothing is ever replaced" % target)
    temporary = temporary_name(target, identity)
    os.makedirs(root, exist_ok=True)
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part, blob in sorted(source.items()):
            path = os.path.relpath(os.path.join(temporary, part) if folder else temporary, root)
            copy_blob(blob, (top, path), part, journal)
    except Linked as e:
        raise Refused("not-supported", "%s: %s" % (temporary, e.strerror)) from None
    finally:
        os.close(top)
    if folder:
        os.makedirs(temporary, exist_ok=True)
        for below, _, _ in os.walk(temporary):
            sync_folder(below)
    sync_folder(os.path.dirname(target))
    return temporary


def make_way(root: str, name: str) -> None:
    """The folders above a name below `root`. Raises Refused if one is a link."""
    os.makedirs(root, exist_ok=True)
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_folder(top, name.split("/")[:-1], make=True, mode=0o755)[0])
    except Linked as e:
        raise Refused("not-supported", "%s: %s" % (os.path.join(root, name), e.strerror)) from None
    finally:
        os.close(top)


def copy_blob(blob: Blob, where: tuple[int, str], name: str, journal: Journal | None) -> None:
    """One file, from where an earlier try ended if what is there agrees; compared once more after fsync: with the
    source, or with what a journal says came from it. `where` is a path below an opened folder."""
    path = where[1]
    *folders, last = path.split("/")
    inside, _ = open_folder(where[0], folders, make=True, mode=0o755)
    try:
        fd = open_file(inside, last, os.O_RDWR | os.O_CREAT, 0o644)
    finally:
        os.close(inside)
    try:
        if os.fstat(fd).st_nlink != 1:
            raise Refused("not-ours", "%s has a second name: it is somebody else's file" % path)
        at = journal.agreeing(name, fd) if journal else _agreeing(blob, fd)
        os.ftruncate(fd, at)
        while at < blob.size:
            data = blob.read(at, min(CHUNK, blob.size - at))
            if not data:
                raise OSError(5, "the source ended early", path)
            _write_all(fd, data, at)
            if journal:
                journal.add(name, at, data)
            at += len(data)
        os.fsync(fd)
        _forget(fd)
        same = journal.agreeing(name, fd) if journal else _agreeing(blob, fd)
        if same != blob.size or os.fstat(fd).st_size != blob.size:
            raise OSError(5, "the copy differs from its source", path)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], at + done)


def _agreeing(blob: Blob, fd: int) -> int:
    """Bytes at the beginning that are the same in both."""
    at, end = 0, min(os.fstat(fd).st_size, blob.size)
    while at < end:
        size = min(CHUNK, end - at)
        there = os.pread(fd, size, at)
        if not there or there != blob.read(at, len(there)):
            return at
        at += len(there)
    return at


def _forget(fd: int) -> None:
    """Drops the page cache of that file, so that the comparison reads from the device."""
    with contextlib.suppress(OSError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(path: str) -> None:
    """Makes names in a folder durable."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
