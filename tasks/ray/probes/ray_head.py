"""Asks a Ray head on its own machine whether GCS and dashboard answer, each within a limit. JSON in, JSON out.

Argument: temp_dir, gcs ("host:port", asked where its process does not tell), dashboard (URL), wait_s. Changes nothing.
"""

import ctypes
import errno
import json
import os
import re
import socket
import sys
import threading
import time
from typing import Any, Callable

from tasks.ray.probes.ray_version import halted_of, ray_processes, ray_version, still_stopped, stopped_beside
from tasks.remote.probes.halted import still_halted
from tasks.remote.probes.proc import link, read

# A gRPC server sends its HTTP/2 settings to whoever opens a connection: one that hangs accepts (the kernel does) and is silent.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
REFUSED = (errno.ECONNREFUSED, errno.ECONNRESET)


def exchange(host: str, port: int, send: bytes, enough: "Callable[[bytes], bool]", wait_s: float) -> "tuple[str, bytes]":
    """("answers" | "silent" | "refused" | "unreached", what came): as soon as it is enough, all of it within wait_s."""
    end, got = time.monotonic() + wait_s, b""
    try:
        with socket.create_connection((host, port), timeout=wait_s) as line:
            line.sendall(send)
            while not enough(got) and len(got) < 65536:
                line.settimeout(max(0.01, end - time.monotonic()))
                more = line.recv(4096)
                if not more:
                    return ("answers" if got else "refused"), got
                got += more
            return "answers", got
    except socket.timeout:
        return "silent", got
    except OSError as e:
        return ("refused" if e.errno in REFUSED else "unreached"), str(e).encode()


def enter_network(pid: "int | None") -> None:
    """Let this thread see the network of that process, where it has one of its own and it may be entered."""
    there = "/proc/%s/ns/net" % pid
    if pid is None or link(there) in ("", link("/proc/self/ns/net")):
        return
    try:
        fd = os.open(there, os.O_RDONLY)
        ctypes.CDLL(None, use_errno=True).setns(fd, NEW_NETWORK)
        os.close(fd)
    except OSError:
        return


def ask_gcs(host: str, port: int, wait_s: float, pid: "int | None" = None) -> "dict[str, str]":
    """Whether a gRPC server speaks there."""
    enter_network(pid)
    answer, got = exchange(host, port, HELLO, lambda b: len(b) >= 9, wait_s)
    if answer == "answers" and got[3:4] != b"\4":
        return {"answer": "wrong", "said": "no gRPC server answers there: %r" % got[:40]}
    return {"answer": answer, "said": got.decode("utf-8", "replace")[:200] if answer == "unreached" else ""}


def ask_dashboard(url: str, wait_s: float) -> "dict[str, str]":
    """Whether it tells its version, for which it needs no GCS."""
    where = re.match(r"https?://(\[[^\]]+\]|[^:/]+)(?::(\d+))?", url)
    if not where or url.startswith("https"):
        return {"answer": "unreached", "said": "only http:// addresses can be asked"}
    host, port = where.group(1).strip("[]"), int(where.group(2) or 80)
    send = ("GET /api/version HTTP/1.0\r\nHost: %s\r\n\r\n" % where.group(1)).encode()
    answer, got = exchange(host, port, send, lambda b: re.match(rb"HTTP/\S+ \d+", b) is not None, wait_s)
    first = got.split(b"\r\n")[0].decode("utf-8", "replace")[:200]
    if answer == "answers" and not re.match(r"HTTP/\S+ [1-4]\d\d\b", first):  # one that asks who calls answers
        return {"answer": "wrong", "said": first}
    return {"answer": answer, "said": first if answer == "unreached" else ""}


def place(line: str, asked: str) -> "tuple[str, int]":
    """Where its GCS listens, by its own command line, else as the fleet file has it."""
    ip, port = re.search(r"--node-ip-address=(\S+)", line), re.search(r"--gcs_server_port=(\d+)", line)
    host, _, number = asked.rpartition(":")
    if ip and port and port.group(1) != "0":
        return ip.group(1), int(port.group(1))
    return host, int(number)


def last_words(temp_dir: str) -> "list[str]":
    """The end of what a GCS that is gone wrote."""
    folder = temp_dir + "/session_latest/logs/gcs_server"
    lines = [x for name in (".err", ".out") for x in (read(folder + name, 1 << 22) or "").splitlines()[-3:]]
    return [x[:300] for x in lines if x.strip()]


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Both asked at once."""
    servers = ray_processes("gcs_server", (ask["temp_dir"] + "/",))
    boards = ray_processes("", ("/dashboard/dashboard.py ", ask["temp_dir"]))
    gcs, board = (found[0] if found else None for found in (servers, boards))
    held = {"gcs": halted_of(servers), "dashboard": halted_of(boards)}
    beside = {x["pid"]: x for x in stopped_beside(gcs) + stopped_beside(board)}
    host, port = place(gcs["line"] if gcs else "", ask["gcs"])
    found = {"gcs": {"at": "%s:%d" % (host, port)}, "dashboard": {"at": ask["dashboard"]}}  # type: dict[str, Any]
    pid = gcs["pid"] if gcs else None
    jobs = [threading.Thread(target=lambda: found["gcs"].update(ask_gcs(host, port, ask["wait_s"], pid))),
            threading.Thread(target=lambda: found["dashboard"].update(ask_dashboard(ask["dashboard"], ask["wait_s"])))]  # fmt: skip
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    for name, now in (("gcs", gcs), ("dashboard", board)):
        found[name].update(pid=now["pid"] if now else None, state=now["state"] if now else "", halted=still_halted(held[name]))
    version = ray_version(gcs["pid"]) if gcs else {"ray": "", "python": ""}
    words = [] if gcs else last_words(ask["temp_dir"])
    return dict(found, versions=version, stopped=still_stopped(list(beside.values())), last_words=words)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
