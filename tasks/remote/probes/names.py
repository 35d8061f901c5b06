"""Resolves names on this machine, and asks its name servers for those that fail or come late. Changes nothing. Python 3.6.

At most 16 names and 3 servers, all at once, with one time limit for each of the two steps.
"""

import os
import re
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES, SERVERS = 16, 3
CODES = {
    socket.EAI_NONAME: "no such name",
    socket.EAI_AGAIN: "no answer",
    getattr(socket, "EAI_NODATA", -5): "no address",
}
RCODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}


def at_once(jobs: "list[Callable[[], Any]]", limit_s: float) -> "list[Any]":
    """The answers, None for one that took longer; its thread is left behind and ends with this program."""
    answers = [None] * len(jobs)  # type: list[Any]

    def work(i: int) -> None:
        answers[i] = jobs[i]()

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(jobs))]
    for t in threads:
        t.start()
    end = time.monotonic() + limit_s
    for t in threads:
        t.join(max(0.0, end - time.monotonic()))
    return list(answers)


def lookup(name: str) -> "dict[str, Any]":
    """What the resolver of this machine says, as any program would hear it."""
    began = time.monotonic()
    try:
        socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        said = "resolved"
    except socket.gaierror as e:
        said = CODES.get(e.errno or 0, str(e))
    except (OSError, UnicodeError) as e:
        said = str(e)
    return {"said": said, "seconds": round(time.monotonic() - began, 3)}


def servers() -> "list[str]":
    """Name servers of /etc/resolv.conf."""
    try:
        with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as f:
            return re.findall(r"^\s*nameserver\s+([0-9A-Fa-f.:]+)", f.read(65536), re.M)[:SERVERS]
    except OSError:
        return []


def query(server: str, name: str, limit_s: float) -> str:
    """The server's own answer to a question for the name's address: its code, or "no answer"."""
    key = os.urandom(2)
    try:
        labels = [part.encode("idna") for part in name.rstrip(".").split(".")]
    except UnicodeError:
        return "not a name"
    asked = b"".join(bytes([len(x)]) + x for x in labels) + b"\0"
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.settimeout(limit_s)
            s.connect((server, 53))
            s.send(key + b"\1\0\0\1\0\0\0\0\0\0" + asked + b"\0\1\0\1")
            got = s.recv(4096)
    except OSError as e:
        return "no answer" if isinstance(e, socket.timeout) else "no answer: %s" % (e.strerror or e)
    if len(got) < 12 or got[:2] != key:
        return "no answer that fits"
    return RCODES.get(got[3] & 15, "code %d" % (got[3] & 15))


def resolve(names: "list[str]", limit_s: float, late_s: float) -> "list[dict[str, Any]]":
    """Each name with what was said; for those that failed or took `late_s` seconds, what each name server says."""
    names = names[:NAMES]
    found = at_once([lambda n=n: lookup(n) for n in names], limit_s)  # type: ignore[misc]
    slow = {"said": "timed out", "seconds": limit_s}
    out = [dict(got or slow, name=name, servers=[]) for name, got in zip(names, found)]  # noqa: B905 - Python 3.6
    wrong = [x for x in out if x["said"] != "resolved" or x["seconds"] >= late_s]
    pairs = [(x, s) for x in wrong for s in servers()]
    said = at_once([lambda x=x, s=s: query(s, x["name"], 1.5) for x, s in pairs], 2.0)  # type: ignore[misc]
    for (x, server), answer in zip(pairs, said):  # noqa: B905 - Python 3.6
        x["servers"].append({"address": server, "said": answer or "no answer"})
    return out
