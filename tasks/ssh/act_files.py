"""Changes one file of this machine that others write too: one line made a comment, the whole exchanged, its mode."""

import errno
import fcntl
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused
from tasks.remote.probes.aside import Misplaced, rename_free, swap

BUSY_S = 3.0  # how long others may have it open; each of them reads or appends in milliseconds
NO_LEASES = (errno.EINVAL, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.ENOLCK)  # network file systems, others' files


def aside_of(path: Path) -> Path:
    """A free name beside it for what it was."""
    return path.with_name(f"{path.name}.before-{secrets.token_hex(4)}")


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of the file itself; a link is not followed. Raises ActionRefused."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        link = e.errno == errno.ELOOP
        raise ActionRefused(RefusalCode.TARGET_CHANGED,
            f"{path} is a link, and none is followed" if link else f"{path}: {e.strerror}") from e
    try:
        yield fd
    finally:
        os.close(fd)


def content(fd: int) -> bytes:
    """The whole of an opened file."""
    return os.pread(fd, os.fstat(fd).st_size + (1 << 16), 0)


def still_there(path: Path, fd: int) -> None:
    """The name still means the opened file. Raises ActionRefused."""
    with suppress(OSError):
        if os.path.samestat(os.fstat(fd), path.lstat()):
            return
    raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{path} was replaced in this very moment; what lies there now was not touched")


@contextmanager
def alone(fd: int) -> Iterator[None]:
    """Nobody else has the file open, and who opens it waits until the end: milliseconds (a lease of the kernel).

    Where the file system has none, it goes on without. Raises ActionRefused when others keep it open."""
    until = time.monotonic() + BUSY_S
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # who waits is announced by a signal: one that is ignored by default
    leased = False
    while not leased:
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            leased = True
        except OSError as e:
            if e.errno in NO_LEASES:
                break
            if e.errno != errno.EAGAIN or time.monotonic() > until:
                raise ActionRefused(RefusalCode.IN_USE, "others have the file open all the time; nothing was changed") from e
            time.sleep(0.005)
    try:
        yield
    finally:
        if leased:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def comment_out(path: Path, number: int, judged: Callable[[str], bool], aside: Path | None = None) -> Path:
    """Makes one line a comment by its first byte, in place, so that nothing that others append is lost; a copy of the file
    as it was. Raises ActionRefused when it is not the judged line."""
    real = Path(os.path.realpath(path))
    with opened(real, os.O_RDWR) as fd, alone(fd):
        if aside and aside.exists():
            raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"{aside} is there already: another file as it was")
        data = content(fd)
        lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        if number > len(lines) or not judged(lines[number - 1].rstrip("\r\n")):
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{path} line {number} is not the line that was read")
        still_there(real, fd)
        aside = aside or aside_of(real)
        write_new(aside, data, os.fstat(fd).st_mode & 0o777)
        try:
            os.pwrite(fd, b"#", len("".join(lines[: number - 1]).encode("utf-8", "surrogateescape")))
            os.fsync(fd)
            still_there(real, fd)
        except ActionRefused:
            aside.unlink()
            raise
    return aside


def exchange(path: Path, text: str, judged: Callable[[Path], None], aside: Path | None = None) -> Path:
    """A new text, mode 600, under the name, in place of the file that `judged` still knows when it has come out; where that
    lies now. Others' writes stay. Raises ActionRefused, whatever `judged` raises."""
    if aside and aside.exists():
        raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"{aside} is there already: another file as it was")
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_new(fresh, text.encode(), 0o600)
    try:
        swap(str(fresh), str(path), lambda out: judged(Path(out)))
    except Misplaced as e:
        raise RuntimeError(str(e)) from e
    except Exception:
        fresh.unlink()
        raise
    aside = aside or aside_of(path)
    rename_free(str(fresh), str(aside))
    return aside


def write_new(path: Path, data: bytes, mode: int) -> None:
    """A new file with these bytes, on disk. Raises FileExistsError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(fd)
