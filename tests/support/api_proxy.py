"""A proxy in front of the Prefect API that answers badly: busy at first, asked twice, answers lost."""

import http.client
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

BAD = ("busy", "twice", "lost")
"""busy: each request is answered by 503 first, and not passed on · twice: what changes something is passed on twice, the second answer
comes back · lost: each fourth request is passed on, and its answer is never sent."""


class ApiProxy:
    """`with ApiProxy(api, "busy") as url:`; `count` says how often it answered badly."""

    def __init__(self, api: str, fault: str) -> None:
        assert fault in BAD
        self.fault, self.count = fault, Counter[str]()
        target, self._asked, self._lock = urlsplit(api), 0, threading.Lock()
        self._seen: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, target.hostname or "", target.port or 80))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{target.path}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def turn(self) -> int:
        """Number of this request."""
        with self._lock:
            self._asked += 1
            return self._asked

    def first(self, request: str) -> bool:
        """True for the first, third, fifth … of the same requests: none is refused twice in a row."""
        with self._lock:
            self._seen[request] += 1
            return self._seen[request] % 2 == 1

    def __enter__(self) -> "ApiProxy":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(proxy: ApiProxy, host: str, port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _go(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            turn = proxy.turn()
            if proxy.fault == "busy" and proxy.first(f"{self.command} {self.path}"):
                proxy.count["busy"] += 1
                self._answer(503, {}, b'{"detail":"database is locked"}')
                return
            status, headers, data = self._ask(body)
            changes = self.command in ("POST", "PATCH", "PUT", "DELETE") and not self.path.endswith(("/filter", "/count"))
            if proxy.fault == "twice" and changes:
                proxy.count["twice"] += 1
                status, headers, data = self._ask(body)
            if proxy.fault == "lost" and turn % 4 == 0:
                proxy.count["lost"] += 1
                self.close_connection = True
                return
            self._answer(status, headers, data)

        def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            there = http.client.HTTPConnection(host, port, timeout=30)
            kept = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "content-length", "accept-encoding")}
            there.request(self.command, self.path, body or None, kept)
            answer = there.getresponse()
            data = answer.read()
            there.close()
            dropped = ("connection", "content-length", "transfer-encoding", "date", "server")
            return answer.status, {k: v for k, v in answer.getheaders() if k.lower() not in dropped}, data

        def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Silent."""

    go: Callable[[Handler], None] = Handler._go
    for method in ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", go)
    return Handler
