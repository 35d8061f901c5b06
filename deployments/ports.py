"""Ports of this machine: whether one can be listened on, and free ones that nobody else is given for a while."""

import fcntl
import os
import re
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def is_free(port: int, address: str = "127.0.0.1") -> bool:
    """True if a listener may bind this TCP port now (one that only waits in TIME_WAIT counts as free)."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((address, port))
        except OSError:
            return False
        return True


def free_port(address: str = "127.0.0.1", partners: Iterable[int] = ()) -> int:
    """A free TCP port for a server that starts later; port + p is free as well for each p of `partners`.

    Taken in turn from below the ports that the kernel gives to outgoing connections, by a counter which all processes
    of this user share: neither a connection nor another server that starts at the same time gets it in between.
    Raises OSError when there is none.
    """
    low, high = _not_the_kernels()
    wanted = (0, *partners)
    with _counter() as shared:
        at = int(re.sub(r"\D", "", shared.read()) or 0)
        for step in range(1, high - low):
            port = low + (at + step) % (high - low)
            if port + max(wanted) < high and all(is_free(port + p, address) for p in wanted):
                shared.seek(0)
                shared.write(f"{(at + step) % (high - low):<8}")
                return port
    raise OSError(f"no TCP port between {low} and {high} is free on {address}")


def _not_the_kernels() -> tuple[int, int]:
    """The larger side of the ports beside the kernel's own, [low, high); all above 10,000 where it leaves too few."""
    try:
        first, last = (int(n) for n in _RANGE.read_text().split())
    except (OSError, ValueError):
        first, last = 32_768, 60_999
    sides = [(_LOWEST, first), (last + 1, 65_536)]
    low, high = max(sides, key=lambda s: s[1] - s[0])
    return (low, high) if high - low >= 1000 else (_LOWEST, 65_536)


def _counter() -> TextIO:
    """The shared counter, locked until it is closed; never a link that somebody else put there."""
    path = Path(tempfile.gettempdir()) / f"gpu-runbooks-ports-{os.geteuid()}"
    shared = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+")
    fcntl.flock(shared, fcntl.LOCK_EX)
    return shared
