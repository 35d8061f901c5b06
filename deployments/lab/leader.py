"""A small leader of a peer-to-peer cluster: GET /status, POST /admin/reset_node_jobs. For the lab and the tests."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class LabLeader:
    """The cluster as this leader sees it. Use as a context manager; `url` is valid inside."""

    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    node_id: str = "leader-1"
    leader_id: str = "leader-1"
    zombies: list[str] = field(default_factory=list)
    answer: bytes | None = None  # sent instead of the status, as it is
    status: int = 200
    delay_s: float = 0.0
    obeys: bool = True  # False: a reset is answered with 200 and changes nothing
    token: str = ""  # where set, calls need it
    asked: list[str] = field(default_factory=list)  # every call: "POST /admin/reset_node_jobs {…}"

    def __enter__(self) -> "LabLeader":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def body(self) -> bytes:
        """What /status answers."""
        if self.answer is not None:
            return self.answer
        document = {
            "node_id": self.node_id,
            "leader_id": self.leader_id,
            "role": "leader" if self.node_id == self.leader_id else "follower",
            "timestamp": time.time(),
            "peers": self.peers,
            "idle_detection_stats": {"zombie_nodes": self.zombies, "checks": 12},
            "uptime": 4711.5,
        }
        return json.dumps(document).encode()

    def reset(self, body: bytes) -> int:
        """Forget the jobs of a node; the HTTP status."""
        try:
            node = json.loads(body)["node_id"]
        except (ValueError, KeyError, TypeError):
            return 400
        if node not in self.peers:
            return 404
        if self.obeys:
            self.peers[node].update(selfplay_jobs=0, training_jobs=0)
        return 200


def _handler(leader: LabLeader) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            leader.asked.append(f"GET {self.path}")
            time.sleep(leader.delay_s)
            self._send(leader.status if self._allowed() else 401, leader.body() if self.path == "/status" else b"{}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            leader.asked.append(f"POST {self.path} {body.decode()}")
            known = self.path == "/admin/reset_node_jobs"
            self._send((leader.reset(body) if known else 404) if self._allowed() else 401, b'{"ok": true}')

        def _allowed(self) -> bool:
            return not leader.token or self.headers.get("Authorization") == f"Bearer {leader.token}"

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    return Handler
