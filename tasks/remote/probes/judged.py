"""The process that was judged, and no other: what every probe that signals one does first.

A descriptor is taken first and the start time read after it, so that the signal can only reach the process that was checked.
"""

import os
import platform
from typing import Any

from tasks.remote.probes.pidfd import open_pidfd, send
from tasks.remote.probes.proc import boot_id, command, stat, uid
from tasks.remote.probes.refused import Refused

SECRET = "<secret:"  # noqa: S105 - where a replaced secret begins: what stands before it is compared
KERNEL_THREAD = 0x00200000  # PF_KTHREAD


def pidfd(pid: int) -> "int | None":
    """A descriptor of that process; None when it is gone. Raises Refused where the kernel has no pidfd (before 5.3)."""
    try:
        return open_pidfd(pid)
    except OSError as e:
        raise Refused("not-supported", "pidfd_open(%d): %s (kernel %s)" % (pid, e.strerror, platform.release())) from None


def same_list(ask: "dict[str, Any]") -> None:
    """Raises Refused when the node was booted since its processes were judged, or when there are none."""
    if boot_id() != ask["boot_id"]:
        raise Refused("target-changed", "the node was booted since: boot id %s, judged was %s" % (boot_id(), ask["boot_id"]))
    if not ask["processes"]:
        raise Refused("not-ours", "the list of processes is empty; an empty list never means all")


def judged(want: "dict[str, Any]", protected: "set[int]") -> "tuple[int | None, dict[str, Any] | None]":
    """The descriptor and the stat of that process, (None, stat) where it is dead, (None, None) where it is gone.

    Raises Refused when it is not the one that was judged, or may not be signalled."""
    pid, fd = int(want["pid"]), pidfd(int(want["pid"]))
    now = stat(pid) if fd is not None else None
    if fd is None or now is None:
        return None, None
    if now["start_ticks"] != want["start_ticks"]:
        raise Refused("target-changed", "pid %d is another process now: started at tick %d, judged was the one of tick %d"
                     % (pid, now["start_ticks"], want["start_ticks"]))  # fmt: skip
    if now["state"] in "ZX":
        return None, now
    if pid in protected or pid == 1 or now["flags"] & KERNEL_THREAD:
        raise Refused("not-ours", "pid %d is init, a kernel thread, or above this check itself" % pid)
    same_owner(pid, now, want)
    error = send(fd, 0)
    if error:
        raise Refused("not-supported", "pid %d may not be signalled from here: %s" % (pid, os.strerror(error)))
    return fd, now


def same_owner(pid: int, now: "dict[str, Any]", want: "dict[str, Any]") -> None:
    """The program, and the user where one was judged, are as they were (exec keeps the start time). Of the command line as many
    characters are compared as were kept."""
    if "uid" in want and uid(pid) != want["uid"]:
        raise Refused("target-changed", "pid %d belongs to uid %d now, judged was uid %s" % (pid, uid(pid), want["uid"]))
    text, known = command(pid, now["state"], now["comm"])[: want.get("kept", 4096)], want["command"].split(SECRET)[0]
    if text != known if SECRET not in want["command"] else not text.startswith(known):
        raise Refused("target-changed", "pid %d runs another program now: %r" % (pid, text[:200]))
