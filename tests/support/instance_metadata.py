"""An instance on a network of its own: its metadata service, the machine, and a container behind the machine's routing."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.leftovers import own
from tests.support.namespaces import NamespaceHost, ip
from tests.support.need import need_program

SERVER = r"""
import socket, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
hops, role = int(sys.argv[1]), sys.argv[2]
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_PUT(self):
        self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
        self.answer(200, "TOKEN")
    def do_GET(self):
        known = self.headers.get("X-aws-ec2-metadata-token") == "TOKEN"
        self.answer(401 if not known else 200 if role else 404, role if known else "")
    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
server = ThreadingHTTPServer(("169.254.169.254", 80), Handler)
print("ready", flush=True)
server.serve_forever()
"""
JOB = "import sys, time; time.sleep(120)"


class Instance:
    """The machine as a host, and the job that runs in its container."""

    def __init__(self, host: NamespaceHost, container: str) -> None:
        self.host, self.container, self.mark = host, container, f"hop-limit-job-{os.getpid()}"

    @contextmanager
    def job(self, *env: str) -> Iterator[int]:
        """The pid of a job in the container."""
        with _living(self.container, ("env", "-i", "HOME=/nonexistent", *env, sys.executable, "-c", JOB, self.mark)) as process:
            end = time.monotonic() + 10
            while self.mark not in _command(process.pid) or _command(process.pid).startswith(("ip\0", "env\0")):
                assert time.monotonic() < end, "the job did not start"
                time.sleep(0.02)
            yield process.pid


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


@contextmanager
def instance(hops: int, role: str = "trainer") -> Iterator[Instance]:
    """An instance whose hop limit is `hops`: the answer to the token request really has that time to live."""
    need_program("ip", "iproute2")
    service, machine, inside = (own(f"im{os.getpid()}-{x}") for x in "smc")
    try:
        for name in (service, machine, inside):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        _line(machine, "meta", "169.254.1.1/16", service, "169.254.169.254/16")
        _line(machine, "bridge", "172.30.7.1/24", inside, "172.30.7.2/24")
        ip("-n", service, "route", "add", "default", "via", "169.254.1.1")
        ip("-n", inside, "route", "add", "default", "via", "172.30.7.1")
        ip("netns", "exec", machine, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        with _living(service, (sys.executable, "-c", SERVER, str(hops), role)) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield Instance(NamespaceHost("a", machine), inside)
    finally:
        for name in (service, machine, inside):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _line(a: str, name: str, address: str, b: str, other: str) -> None:
    ip("-n", a, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", b)
    for space, link, at in ((a, name, address), (b, "eth0", other)):
        ip("-n", space, "addr", "add", at, "dev", link)
        ip("-n", space, "link", "set", link, "up")


@contextmanager
def _living(namespace: str, argv: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["ip", "netns", "exec", namespace, *argv], stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
