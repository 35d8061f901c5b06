"""Whether a node reaches the others on a port and they reach it: for a few seconds it listens there, if the port is free,
and connects to each of them. Nothing else is touched.

Who listens says its name and this check's mark: a connection that something between takes and closes is no way, and neither is one
that ends at another node. Argument: node, mark, port, peers [{node, host, listens}], seconds, listen (false: somebody has the port;
then a connection that stays open is all that can be asked for). One JSON answer.
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


def listen(port: int, hello: bytes, peers: int, end: float) -> None:
    """Greet and drop connections until a second after each of the others has come, or `end`."""
    came = set()  # type: set[str]
    with contextlib.suppress(OSError), server(port) as s:
        s.listen(64)
        while time.monotonic() < end:
            s.settimeout(max(0.01, end - time.monotonic()))
            with contextlib.suppress(socket.timeout, OSError):
                client, address = s.accept()
                with client:
                    client.sendall(hello)
                if str(address[0]) not in came and len(came) == peers - 1:
                    end = min(end, time.monotonic() + 1)
                came.add(str(address[0]))


def greeting(s: "socket.socket", mark: str, node: str, listens: bool) -> str:
    """"" where that node greeted (or, where it does not listen itself, the connection stayed open); else what was wrong."""
    try:
        got = s.recv(512).decode("utf-8", "replace")
    except socket.timeout:
        return "" if not listens else "connected, and nothing came"
    except OSError as e:
        return "closed: accepted, then %s" % (e.strerror or e)
    if not got:
        return "closed: accepted, then closed without a byte"
    if mark in got:
        name = got.strip().rpartition(" ")[2]
        return "" if name == node else "answers as %s: that address is another node's" % name
    return "" if not listens else "something else answers there: %r" % got[:60]


def connect(peer: "dict[str, Any]", port: int, mark: str, end: float) -> None:
    """Try until it works or time is up: the peer may begin later than we do."""
    peer["error"] = "not tried"
    while time.monotonic() < end:
        try:
            with socket.create_connection((peer["host"], port), timeout=2) as s:
                s.settimeout(1.5)
                peer["error"] = greeting(s, mark, peer["node"], peer["listens"])
            if not peer["error"] or peer["error"].startswith("answers as"):
                return
        except ConnectionRefusedError:
            if not peer["error"].startswith("closed:"):
                peer["error"] = "connection refused"
        except OSError as e:
            peer["error"] = str(e) or type(e).__name__
        time.sleep(0.2)


def main() -> None:
    """Both directions at once. Answer on standard output: peers with their error, "" where it connected."""
    ask = json.loads(sys.argv[1])
    end, peers = time.monotonic() + ask["seconds"], ask["peers"]
    threads = [threading.Thread(target=connect, args=(p, ask["port"], ask["mark"], end - 1), daemon=True) for p in peers]
    if ask["listen"]:
        hello = ("%s %s\n" % (ask["mark"], ask["node"])).encode()
        threads.append(threading.Thread(target=listen, args=(ask["port"], hello, len(peers), end), daemon=True))
    for t in threads:
        t.start()
    for t in threads:
        t.join(max(0.1, end - time.monotonic() + 2.5))
    print(json.dumps({"peers": peers}))


main()
