"""Descriptors of processes for the probes that signal one: Python has them since 3.9, the kernel since 5.3."""

import ctypes
import os
import select

PIDFD_SEND_SIGNAL, PIDFD_OPEN = 424, 434  # the same on every architecture but alpha
LIBC = ctypes.CDLL(None, use_errno=True)


def open_pidfd(pid: int) -> "int | None":
    """A descriptor of that process; None when it is gone. Raises OSError where the kernel has none."""
    fd = LIBC.syscall(PIDFD_OPEN, pid, 0)
    if fd >= 0:
        return int(fd)
    error = ctypes.get_errno()
    if error == 3:  # ESRCH
        return None
    raise OSError(error, os.strerror(error))


def send(fd: int, number: int) -> int:
    """Signal the process behind the descriptor; 0, or the errno."""
    return 0 if LIBC.syscall(PIDFD_SEND_SIGNAL, fd, number, None, 0) == 0 else ctypes.get_errno()


def ended(fd: int, wait_s: float = 0.0) -> bool:
    """Whether it ends within that time (a pidfd is readable once its process is Z or gone)."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(int(wait_s * 1000)))
