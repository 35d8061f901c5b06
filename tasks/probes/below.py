"""Opens what lies below a folder part by part, no link followed, as the folder's user: part of the probes that act in homes.

What a user exchanges for a link meanwhile leads root nowhere: each part is opened in the folder that is held open already.
"""

import errno
import os
from typing import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Linked(OSError):
    """A part of the path is a link, or no folder."""


class As:
    """With root's rights given up for those of a user, who is no other where this does not run as root; and back."""

    def __init__(self, uid: int, gid: int) -> None:
        self.user, self.root = (uid, gid), os.geteuid() == 0 and uid != 0
        self.before = ([], 0)  # type: tuple[list[int], int]

    def __enter__(self) -> "As":
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


def open_folder(top: int, parts: "list[str]", make: bool = False) -> "tuple[int, list[str]]":
    """The folder below the opened one, and which parts had to be made (mode 700). Raises Linked, OSError."""
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
                os.mkdir(part, 0o700, dir_fd=fd)
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


def _open(name: str, flags: int, mode: int, folder: int) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Linked(e.errno, "%s is a link or no folder: it is not followed" % name, name) from None
        raise
