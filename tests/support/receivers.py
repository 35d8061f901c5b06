"""Real receivers of messages on loopback: an HTTP server that keeps every body, and an SMTP server that keeps every mail."""

import json
import socketserver
import ssl
import threading
import time
from email import message_from_bytes
from email.message import Message as Mail
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """POST anything; `answer` is the status it gives (0: never answers within `hang_s`)."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.got: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.answer = 200
        self.reply: dict[str, Any] = {}
        self.hang_s = 0.0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                time.sleep(hook.hang_s)
                if hook.answer < 400:
                    hook.got.append(json.loads(body) | {"path": self.path})
                    hook.heads.append(dict(self.headers))
                self.send_response(hook.answer)
                self.end_headers()
                self.wfile.write(json.dumps(hook.reply).encode())

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops it."""
        self.server.shutdown()
        self.server.server_close()


class MailServer:
    """SMTP without authentication: enough of RFC 5321 for smtplib."""

    def __init__(self) -> None:
        self.got: list[Mail] = []
        box = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 test\r\n")
                while line := self.rfile.readline():
                    verb = line[:4].upper()
                    if verb == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        box.got.append(message_from_bytes(self._data()))
                    if verb == b"QUIT":
                        self.wfile.write(b"221 bye\r\n")
                        return
                    self.wfile.write(b"250 ok\r\n")

            def _data(self) -> bytes:
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
                return b"".join(lines)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops it."""
        self.server.shutdown()
        self.server.server_close()
