"""Servers that a command may meet instead of Prefect: each goes wrong in its own way."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import prefect

from deployments.ports import free_port

Answer = tuple[int, bytes]
FINE: Answer = (200, f'"{prefect.__version__}"'.encode())


@contextmanager
def refusing() -> Iterator[str]:
    """Nobody listens."""
    yield f"http://127.0.0.1:{free_port()}/api"


@contextmanager
def hanging() -> Iterator[str]:
    """Takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        yield f"http://127.0.0.1:{s.getsockname()[1]}/api"


@contextmanager
def nowhere() -> Iterator[str]:
    """A name that no machine has."""
    yield "http://no-such-host.invalid:4200/api"


@contextmanager
def malformed() -> Iterator[str]:
    """What somebody mistyped."""
    yield "localhost:4200/api"


@contextmanager
def answering(health: Answer, other: Answer) -> Iterator[str]:
    """Answers by HTTP: `/health` and everything else."""
    with serving(lambda path: health if path.endswith("/health") else other) as base:
        yield f"{base}/api"


@contextmanager
def serving(answer: Callable[[str], Answer]) -> Iterator[str]:
    """Answers every request by its path; the address without one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answer(self.path)
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(code)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def garbled() -> Iterator[str]:
    """Speaks something else than HTTP, as an SSH port does."""
    with socket.create_server(("127.0.0.1", 0)) as s:

        def greet() -> None:
            while True:
                try:
                    connection, _ = s.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        Thread(target=greet, daemon=True).start()
        yield f"http://127.0.0.1:{s.getsockname()[1]}/api"


KINDS: dict[str, tuple[Callable[[], AbstractContextManager[str]], str]] = {
    "refused": (refusing, "cannot be reached: connection refused"),
    "hanging": (hanging, "does not answer within"),
    "no such host": (nowhere, "no such host"),
    "mistyped": (malformed, "is not a usable address"),
    "not HTTP": (garbled, "answers, but not by HTTP"),
    "busy": (partial(answering, (503, b"busy"), (503, b"busy")), "answers 503"),
    "wrong password": (partial(answering, FINE, (401, b"no")), "refuses the log-in (401)"),
    "another service": (partial(answering, (404, b"no"), (404, b"no")), "is not the API of a Prefect server"),
    "an old one": (partial(answering, FINE, (200, b'"1.4.0"')), "is Prefect 1.4.0, but gpu-runbooks needs 3."),
    "a web page": (partial(answering, (200, b"<html>"), (200, b"<html>")), "is not the API of a Prefect server"),
}
"""What is wrong → the server, and what a command says of it."""
