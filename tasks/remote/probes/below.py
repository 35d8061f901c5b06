"""Opens files part by part, so that no link of another user is followed: part of the probes that act as root among users.

What a user exchanges for a link meanwhile leads root nowhere: each part is opened in the folder that is held open already.
"""

import contextlib
import errno
import os
import stat
from typing import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Linked(OSError):
    """A part of the path is a link, or no folder."""


class RunAs:
    """With root's rights given up for those of a user, who is no other where this does not run as root; and back."""

    def __init__(self, uid: int, gid: int) -> None:
        self.user, self.root = (uid, gid), os.geteuid() == 0 and uid != 0
        self.before = ([], 0)  # type: tuple[list[int], int]

    def __enter__(self) -> "RunAs":
        if self.root:
            self.before = (os.getgroups(), os.getegid())
            os.setgroups([])
            os.setegid(self.user[1])
            os.seteuid(self.user[0])
        return self

    def __exit__(self, *_: "Any") -> None:
        if self.root:
            os.seteuid(0)
            os.setegid(self.before[1])
            os.setgroups(self.before[0])


def open_folder(top: int, parts: "list[str]", make: bool = False, mode: int = 0o700) -> "tuple[int, list[str]]":
    """The folder below the opened one, and which parts had to be made. Raises Linked, OSError."""
    fd, made = os.dup(top), []  # type: int, list[str]
    try:
        for part in parts:
            if part in ("", ".", ".."):
                raise Linked(errno.ELOOP, "no plain name", part)
            try:
                below = _open(part, FOLDER, 0, fd)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=fd)
                    made.append(part)
                below = _open(part, FOLDER, 0, fd)
            os.close(fd)
            fd = below
    except OSError:
        os.close(fd)
        raise
    return fd, made


def open_file(folder: int, name: str, flags: int, mode: int = 0o600) -> int:
    """A file in the opened folder; a link is not followed, a pipe not waited for. Raises Linked, OSError."""
    return _open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, folder)


def open_below(top: str, path: str, flags: int, mode: int = 0o600) -> int:
    """A file below a folder, by its path in it: no part of that is a link. Raises Linked, OSError."""
    held, parts = os.open(top, FOLDER & ~os.O_NOFOLLOW), path.split("/")
    try:
        folder, _ = open_folder(held, parts[:-1])
    finally:
        os.close(held)
    try:
        return open_file(folder, parts[-1], flags, mode)
    finally:
        os.close(folder)


def _open(name: str, flags: int, mode: int, folder: int) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Linked(e.errno, "%s is a link or no folder: it is not followed" % name, name) from None
        raise


def open_trusted(path: str, flags: int, mode: int = 0o600, make: int = 0o755) -> int:
    """A file by its absolute path, where nothing that another user owns decides where that leads; folders are made.

    Every folder, link and the file itself belong to root or to who runs this; the file is a plain one with one name.
    Raises OSError."""
    fd, todo, links = os.open("/", FOLDER), [p for p in path.split("/") if p], 0
    try:
        while todo:
            part, last = todo.pop(0), not todo
            try:
                seen = os.stat(part, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                if not last:
                    os.mkdir(part, make, dir_fd=fd)
                    todo.insert(0, part)
                    continue
                return open_file(fd, part, flags | os.O_CREAT | os.O_EXCL, mode)
            if seen.st_uid not in (0, os.geteuid()):
                raise OSError(errno.EACCES, "%s of %s belongs to uid %d" % (part, path, seen.st_uid), path)
            if stat.S_ISLNK(seen.st_mode):
                to, links = os.readlink(part, dir_fd=fd), links + 1
                if links > 20:
                    raise OSError(errno.ELOOP, "too many links", path)
                todo = [p for p in to.split("/") if p and p != "."] + todo
                if to.startswith("/"):
                    os.close(fd)
                    fd = os.open("/", FOLDER)
                continue
            if last:
                return _plain(open_file(fd, part, flags, mode), seen, path)
            below = os.open(part, FOLDER if part != ".." else FOLDER & ~os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
            if os.fstat(fd).st_uid not in (0, os.geteuid()):
                raise OSError(errno.EACCES, "%s of %s was exchanged meanwhile" % (part, path), path)
    finally:
        os.close(fd)
    raise OSError(errno.EISDIR, "no name of a file", path)


def _plain(fd: int, seen: "os.stat_result", path: str) -> int:
    now = os.fstat(fd)
    if os.path.samestat(now, seen) and stat.S_ISREG(now.st_mode) and now.st_nlink == 1:
        return fd
    os.close(fd)
    raise OSError(errno.EACCES, "%s is no plain file with one name" % path, path)
