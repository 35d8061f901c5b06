"""Whether a node reaches the others on a port and they reach it: for a few seconds it listens there, if the port is free,
and connects to each of them. Nothing else is touched.

Argument: port, peers [{node, host}], seconds, listen (false: somebody has the port). One JSON answer.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from typing import Any


def server(port: int) -> "socket.socket":
    """A socket on every address of both families, where the node has both."""
    with contextlib.suppress(OSError):
        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("::", port))
        return s
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", port))  # noqa: S104 - peers must reach it
    return s


def listen(port: int, peers: int, end: float) -> None:
    """Accept and drop connections until each of the others has come, or `end`."""
    came = set()  # type: set[str]
    with contextlib.suppress(OSError), server(port) as s:
        s.listen(64)
        while time.monotonic() < end and len(came) < peers:
            s.settimeout(max(0.01, end - time.monotonic()))
            with contextlib.suppress(socket.timeout):
                client, address = s.accept()
                client.close()
                came.add(str(address[0]))


def connect(peer: "dict[str, Any]", port: int, end: float) -> None:
    """Try until it works or time is up: the peer may begin later than we do."""
    peer["error"] = "not tried"
    while time.monotonic() < end:
        try:
            socket.create_connection((peer["host"], port), timeout=2).close()
            peer["error"] = ""
            return
        except ConnectionRefusedError:
            peer["error"] = "connection refused"
        except OSError as e:
            peer["error"] = str(e) or type(e).__name__
        time.sleep(0.2)


def main() -> None:
    """Both directions at once. Answer on standard output: peers with their error, "" where it connected."""
    ask = json.loads(sys.argv[1])
    end, peers = time.monotonic() + ask["seconds"], ask["peers"]
    threads = [threading.Thread(target=connect, args=(p, ask["port"], end - 1), daemon=True) for p in peers]
    if ask["listen"]:
        threads.append(threading.Thread(target=listen, args=(ask["port"], len(peers), end), daemon=True))
    for t in threads:
        t.start()
    for t in threads:
        t.join(max(0.1, end - time.monotonic() + 2.5))
    print(json.dumps({"peers": peers}))


main()
