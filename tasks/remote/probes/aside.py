"""Renames that never replace, and compare-and-set by name: part of the probes that check something and then change it.

A name is taken away first (renamed aside) and what it named is looked at there, where nobody else finds it; what is not the
judged one goes back. So nothing that appears between a check and a change is changed.
"""

import ctypes
import errno
import os
import platform
from typing import Any

from tasks.remote.probes.refused import Refused

NOREPLACE, EXCHANGE, AT_FDCWD = 1, 2, -100
RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "ppc64le": 357, "s390x": 347}  # syscall numbers, for glibc before 2.28
NOT_HERE = (errno.ENOSYS, errno.EINVAL)  # the kernel or the file system cannot rename so
PATIENCE = 10  # how often somebody else may write in the moment in which their own is given back


class Misplaced(Exception):
    """It is not what was judged and could not get its name back; the text says where it lies."""


def rename2(old: str, new: str, flags: int) -> None:
    """renameat2: atomic, and never replaces (NOREPLACE) or swaps (EXCHANGE). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = (AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags)
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(*names)
    elif platform.machine() in RENAMEAT2:
        failed = libc.syscall(RENAMEAT2[platform.machine()], *names)
    else:
        raise OSError(errno.ENOSYS, "renameat2 is not there", new)
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), new)


def rename_free(old: str, new: str) -> None:
    """A new name, only where it is free: of a file also where the file system cannot rename so. Raises OSError, Misplaced."""
    try:
        rename2(old, new, NOREPLACE)
        return
    except OSError as e:
        if e.errno not in NOT_HERE or (os.path.isdir(old) and not os.path.islink(old)):
            raise
    passing = unguessable(old) + ".tmp"
    os.rename(old, passing)
    try:
        os.link(passing, new, follow_symlinks=False)
    except OSError as e:
        try:
            os.link(passing, old, follow_symlinks=False)
        except OSError:
            raise Misplaced("%s is taken again; what was there lies at %s" % (old, passing)) from None
        os.unlink(passing)
        raise e
    os.unlink(passing)


def unguessable(name: str) -> str:
    """A name beside it that nobody waits for."""
    return "%s-%s" % (name, os.urandom(4).hex())


def take(old: str, new: str, look: "Any") -> None:
    """Gives `old` the free name `new` and calls `look()`; when that raises, `old` has its name again and it goes on up.

    Raises OSError (`new` is taken, `old` is gone), what `look` raises, or Misplaced where `old` was taken meanwhile."""
    rename_free(old, new)
    try:
        look()
    except Exception as e:
        give_back(new, old, str(e))
        raise


def give_back(aside: str, name: str, why: str) -> None:
    """The old name again, never over what appeared there meanwhile. Raises Misplaced."""
    try:
        rename_free(aside, name)
    except OSError as e:
        said = "is taken again" if e.errno == errno.EEXIST else "could not be given back (%s)" % e.strerror
        raise Misplaced("%s; the name %s; it lies whole at %s" % (why, said, aside)) from None


def swap(fresh: str, name: str, look: "Any") -> None:
    """Swaps `fresh` in under `name` and calls `look(path)` with where what came out lies; when that raises, it goes back.

    What others write under the name meanwhile stays there. Afterwards `fresh` is what nobody needs (when it raised), or what
    came out. Raises OSError, Misplaced, what `look` raises."""
    held = os.open(fresh, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # its inode number is not given to another meanwhile
    try:
        try:
            rename2(fresh, name, EXCHANGE)
        except OSError as e:
            if e.errno not in NOT_HERE:
                raise
            _swap_by_two(fresh, name, look)
            return
        try:
            look(fresh)
        except Exception as e:
            _swap_back(fresh, name, held, str(e))
            raise
    finally:
        os.close(held)


def _swap_by_two(fresh: str, name: str, look: "Any") -> None:
    """The same where nothing can be exchanged: the name is taken away first, so it is missing for a moment."""
    passing = unguessable(name) + ".tmp"
    take(name, passing, lambda: look(passing))
    try:
        rename_free(fresh, name)
    except FileExistsError:  # somebody else wrote it anew: they would have replaced what was there
        raise Refused("target-changed", "%s was rewritten in this very moment; the previous content is at %s" % (name, passing)) from None
    os.rename(passing, fresh)


def _swap_back(fresh: str, name: str, mine: int, why: str) -> None:
    """`name` gets the newest that others wrote: what came out, or what replaced ours since."""
    for _ in range(PATIENCE):
        theirs = os.open(fresh, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            rename2(fresh, name, EXCHANGE)
            if _is(fresh, mine):
                return
            rename2(fresh, name, EXCHANGE)  # somebody replaced ours: theirs is the newest, and what came out is outdated
            if _is(fresh, theirs):
                return
        except OSError as e:
            raise Misplaced("%s; %s; what was there lies at %s" % (why, e, fresh)) from None
        finally:
            os.close(theirs)
    raise Misplaced("%s; others write %s all the time; one of theirs lies at %s" % (why, name, fresh))


def _is(path: str, held: int) -> bool:
    return os.path.samestat(os.lstat(path), os.fstat(held))
