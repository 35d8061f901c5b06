"""Who listens at etcd's address on this machine, where a signal has stopped it. Changes nothing. Python 3.6.

Argument: host, port, apart_s (between the two looks). Answer: {"stopped": [identity of each]}.
"""

import json
import socket
import sys
import time
from typing import Any

from tasks.remote.probes.halted import halted, still_halted
from tasks.remote.probes.listeners import listeners


def ours(host: str) -> bool:
    """Whether this machine has that address: only an own one can be bound."""
    try:
        rows = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(bindable(row[0], row[4]) for row in rows)


def bindable(family: int, where: "Any") -> bool:
    """One of its addresses."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.bind(where)
            return True
    except OSError:
        return False


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Both looks."""
    first = [halted(pid) for pid in listeners(int(ask["port"]))] if ours(ask["host"]) else []
    time.sleep(float(ask["apart_s"]) if any(first) else 0)
    return {"stopped": [now for now in (still_halted(one) for one in first) if now]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
