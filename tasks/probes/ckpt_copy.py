"""Copies a set of blobs to a temporary name beside its target: resumable, fsynced, compared. Python 3.8, standard
library only."""

from __future__ import annotations

import contextlib
import os

from runbooks.parsers.ckpt_types import Blob
from tasks.probes.ckpt_journal import Journal

CHUNK = 8 << 20


class Refusal(Exception):
    """An identity changed, or a guard said no: nothing was changed."""


def temporary_name(target: str, identity: str) -> str:
    """A name that no loader picks, the same for the same source, so that a copy that broke off goes on."""
    return "%s.incoming-%s.tmp" % (target, identity[:8])


def journal_name(target: str, identity: str) -> str:
    """Where a download remembers what it has."""
    return "%s.incoming-%s.sums.tmp" % (target, identity[:8])


def copy_set(
    source: dict[str, Blob], target: str, folder: bool, identity: str, journal: Journal | None = None
) -> str:
    """The temporary path with every byte of the source, on disk. Raises Refusal if the target exists."""
    if os.path.lexists(target):
        raise Refusal("%s is there, and nothing is ever replaced" % target)
    temporary = temporary_name(target, identity)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if folder:
        os.makedirs(temporary, exist_ok=True)
    for name, blob in sorted(source.items()):
        path = os.path.join(temporary, name) if folder else temporary
        os.makedirs(os.path.dirname(path), exist_ok=True)
        copy_blob(blob, path, name, journal)
    if folder:
        for below, _, _ in os.walk(temporary):
            sync_folder(below)
    sync_folder(os.path.dirname(target))
    return temporary


def copy_blob(blob: Blob, path: str, name: str, journal: Journal | None) -> None:
    """One file, from where an earlier try ended if what is there agrees; compared once more after fsync: with the
    source, or with what a journal says came from it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
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
