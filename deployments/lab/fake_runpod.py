"""A stateful stand-in for RunPod on loopback: REST v1 and v2, GraphQL, log streams; pods live in time and break on order.
Held to reality by driving it with the official `runpod` package (tests/tasks/spawning/test_runpod_client.py)."""

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from deployments.lab.fake_stock import GPU, gpu_types, stamp

KEY = "rpa_TESTKEY0000"


@dataclass
class FakePod:
    """One pod. It runs `pull_s` after its start; what is set here wins over time."""

    id: str
    name: str = "gpu-1"
    started: float = field(default_factory=time.time)
    pull_s: float = 0.0
    desired: str = "RUNNING"
    change: str = ""
    ip: str = "127.0.0.1"
    port: int = 2222
    ports: tuple[str, ...] = ("22/tcp",)
    gpus: int = 1
    gpus_wanted: int = 1
    locked: bool = False
    log: tuple[str, ...] = ()
    machine: str = "machine-1"
    runtime_fails: bool = False  # the provider's own look-up times out: null, although it runs
    cost: float = 0.59
    gone_at: float = 0.0  # when an ended pod vanishes
    layers: int = 0  # of the image: while it is pulled, the log shows them coming

    def lines(self) -> tuple[str, ...]:
        """The pod's log at this moment: what was set, and the pull as far as it got."""
        if not self.layers:
            return self.log
        share = min(1.0, (time.time() - self.started) / self.pull_s) if self.pull_s else 1.0
        done = int(share * self.layers)
        pulled = [f"{i:012x} Pull complete" for i in range(done)]
        coming = [] if done == self.layers else [f"{done:012x} Downloading [=>  ]  {share:.1f}GB/1.0GB"]
        return (*self.log, *pulled, *coming, *(["start container"] if done == self.layers else []))

    @property
    def up(self) -> bool:
        """The container runs."""
        return self.desired == "RUNNING" and time.time() >= self.started + self.pull_s

    def rest1(self) -> dict[str, Any]:
        """REST v1. Stale ports stay on an exited pod."""
        known = self.up or self.desired == "EXITED"
        wants = any(p == "22/tcp" for p in self.ports)
        return {
            "id": self.id, "name": self.name, "desiredStatus": self.desired, "lastStatusChange": self.change,
            "lastStartedAt": stamp(self.started), "publicIp": self.ip if known else "",
            "portMappings": {"22": self.port} if known and wants else None, "ports": list(self.ports),
            "machineId": self.machine, "interruptible": False, "locked": self.locked, "costPerHr": str(self.cost),
            "adjustedCostPerHr": self.cost, "networkVolume": None, "env": {"WORKER": self.name}, "image": "org/app:1",
            "gpu": {"count": self.gpus_wanted, "displayName": GPU["displayName"]}, "containerDiskInGb": 50, "volumeInGb": 20,
        }  # fmt: skip

    def rest2(self) -> dict[str, Any]:
        """REST v2."""
        status = ("RUNNING" if self.up else "PROVISIONING") if self.desired == "RUNNING" else self.desired
        return {
            "id": self.id, "name": self.name, "status": status, "actions": [], "locked": self.locked, "cost": self.cost,
            "createdAt": stamp(self.started), "startedAt": stamp(self.started), "ssh": {"proxy": None, "direct": None},
            "runtime": {"uptime": time.time() - self.started, "gpus": [{}] * self.gpus, "cpu": {}, "memory": {},
                        "ports": [{"private": 22, "public": self.port, "type": "tcp", "ip": self.ip}]} if self.up else None,
        }  # fmt: skip

    def graphql(self) -> dict[str, Any]:
        """GraphQL."""
        wants = any(p == "22/tcp" for p in self.ports)
        port = {"ip": self.ip, "isIpPublic": True, "privatePort": 22, "publicPort": self.port, "type": "tcp"}
        live = {"uptimeInSeconds": int(time.time() - self.started), "ports": [port] if wants else [],
                "gpus": [{"id": f"g{i}"} for i in range(self.gpus)]}  # fmt: skip
        return {
            "id": self.id, "name": self.name, "desiredStatus": self.desired, "lastStatusChange": self.change,
            "imageName": "org/app:1", "costPerHr": self.cost, "gpuCount": self.gpus_wanted, "machineId": self.machine,
            "podType": "RESERVED", "ports": ",".join(self.ports), "uptimeSeconds": 0,
            "runtime": live if self.up and not self.runtime_fails else None, "machine": {"gpuDisplayName": "RTX 4090"},
            "env": [], "containerDiskInGb": 50, "volumeInGb": 20, "memoryInGb": 60, "vcpuCount": 8, "dockerArgs": "",
            "volumeMountPath": "/workspace",
        }  # fmt: skip


class FakeRunPod:
    """The server. `pods` may be changed at any time; `fail` gives the next answers another status."""

    def __init__(self) -> None:
        self.pods: dict[str, FakePod] = {}
        self.stock: dict[tuple[str, str], str] = {}  # (GPU type's id, data centre) -> High, Medium, Low
        self.volumes: list[dict[str, Any]] = []  # network volumes
        self.fail: list[int] = []  # statuses of the next answers: 429, 500 …
        self.slow_s = 0.0
        self.calls: list[str] = []
        self.after_act: Callable[[str], None] = lambda _act: None  # called once it is done, before the answer
        self.vanish_s = 0.0  # how long an ended pod is still shown as such
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()

    def add(self, pod_id: str, **fields: Any) -> FakePod:
        """A pod."""
        self.pods[pod_id] = FakePod(id=pod_id, **fields)
        return self.pods[pod_id]

    def count(self, what: str) -> int:
        """How often it was called so."""
        return sum(what in c for c in self.calls)

    def _sweep(self) -> None:
        """Ended pods vanish."""
        for pod in [p for p in self.pods.values() if p.gone_at and p.gone_at <= time.time()]:
            del self.pods[pod.id]

    def rest(self, method: str, path: str) -> tuple[int, Any]:
        """REST v1 and v2."""
        self._sweep()
        version, parts = path.split("/")[1], path.split("/")[3:]
        if path == "/v1/networkvolumes":
            return 200, self.volumes
        if not parts:
            return 200, [p.rest1() if version == "v1" else p.rest2() for p in self.pods.values()]
        pod = self.pods.get(parts[0])
        if pod is None:
            return 404, {"error": "pod not found", "status": 404}
        if method == "GET":
            return 200, pod.rest1() if version == "v1" else pod.rest2()
        return self.act(pod, "terminate" if method == "DELETE" else "".join(parts[1:2]))

    def act(self, pod: FakePod, act: str) -> tuple[int, Any]:
        """start, stop, restart, terminate."""
        now = time.strftime("%a %b %d %Y %H:%M:%S GMT+0000", time.gmtime())
        if pod.locked and act in ("stop", "terminate"):
            return 400, {"error": "pod is locked"}
        if act == "terminate":
            pod.desired, pod.change, pod.gone_at = "EXITED", f"Terminated by user: {now}", time.time() + self.vanish_s
            self._sweep()
            self.after_act(act)
            return 204, None
        if act == "stop":
            pod.desired, pod.change = "EXITED", f"Exited by user: {now}"
            self.after_act(act)
        elif act in ("start", "restart"):
            if pod.gpus == 0:
                return 500, {"error": "There are not enough free GPUs on the host machine to start this pod."}
            pod.desired, pod.change, pod.started = "RUNNING", f"Resumed by user: {now}", time.time()
        else:
            return 404, {"error": "no such action"}
        return 200, pod.rest1()

    def ask(self, body: dict[str, Any]) -> Any:
        """GraphQL, as far as the official package and our client use it."""
        query, given = str(body.get("query")), body.get("variables") or {}
        found = re.search(r'podId:\s*"([^"]+)"', query)
        pod_id = str(found[1] if found else given.get("id", ""))
        pod = self.pods.get(pod_id)
        if "podFindAndDeployOnDemand" in query:
            name = re.search(r'name:\s*"([^"]+)"', query)
            new = self.add(f"pod{len(self.pods) + 1}", name=name[1] if name else "gpu-new", pull_s=0.2)
            return {"podFindAndDeployOnDemand": new.graphql()}
        if "gpuTypes" in query:
            return {"gpuTypes": gpu_types(self.stock, query, given)}
        if "myself" in query:
            return {"myself": {"id": "me", "pods": [p.graphql() for p in self.pods.values()]}}
        for mutation, act in (("podTerminate", "terminate"), ("podStop", "stop"), ("podResume", "start")):
            if mutation in query:
                if pod is None:
                    raise LookupError("pod not found to " + act)
                status, said = self.act(pod, act)
                if status >= 400:
                    raise LookupError(said["error"])
                return {mutation: pod.graphql() if act != "terminate" else None}
        return {"pod": pod.graphql() if pod else None}


def _handler(fake: FakeRunPod) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

        def do_GET(self) -> None:
            method = self.command
            path = urlsplit(self.path).path.rstrip("/")
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with fake._lock:
                fake.calls.append(f"{method} {path}" + (f" {raw.decode()}" if raw else ""))
                status = fake.fail.pop(0) if fake.fail else 0
            time.sleep(fake.slow_s)
            if status:
                return self._answer(status, {"error": "made to fail"})
            if f"Bearer {KEY}" != self.headers.get("Authorization"):
                return self._answer(401, {"error": "Unauthorized"})
            if path.endswith("/logs"):
                return self._logs(path.split("/")[3])
            if path == "/graphql":
                return self._graphql(json.loads(raw))
            return self._answer(*fake.rest(method, path))

        do_POST = do_DELETE = do_GET

        def _graphql(self, body: dict[str, Any]) -> None:
            try:
                self._answer(200, {"data": fake.ask(body)})
            except LookupError as e:
                self._answer(200, {"errors": [{"message": str(e)}], "data": None})

        def _logs(self, pod_id: str) -> None:
            pod = fake.pods.get(pod_id)
            if pod is None:
                return self._answer(404, {"error": "pod not found"})
            text = "".join(f"data: {line}\n\n" for line in pod.lines()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return None

        def _answer(self, status: int, body: Any) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status == 429:
                self.send_header("Retry-After", "1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
