"""Who listens at etcd's address on this machine, where a signal has stopped it. Changes nothing. Python 3.6.

Argument: host, port, apart_s (between the two looks). Answer: {"stopped": [identity of each]}.
"""

import ipaddress
import json
import socket
import sys
import time
from typing import Any

from tasks.remote.probes.halted import halted, still_halted
from tasks.remote.probes.listeners import listeners, own_address


def meant(host: str) -> "list[str]":
    """Addresses of this machine that the host's name or address means here."""
    try:
        found = {str(row[4][0]).split("%")[0] for row in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return []
    return sorted(a for a in found if own_address(a))


def stopped(host: str, port: int) -> "list[dict[str, Any]]":
    """Stopped processes that listen there. A machine's own name may mean 127.0.1.1 on it: then any of its addresses does."""
    mine = meant(host)
    by_name = host not in mine and any(ipaddress.ip_address(a).is_loopback for a in mine)
    held = [halted(pid) for pid in listeners(port, None if by_name else mine)] if mine else []
    return [one for one in held if one]


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Both looks."""
    first = stopped(ask["host"], int(ask["port"]))
    time.sleep(float(ask["apart_s"]) if first else 0)
    return {"stopped": [now for now in map(still_halted, first) if now]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
