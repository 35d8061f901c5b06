"""JSON over HTTP against a small real server on loopback."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from tasks.transport.base import TransportError
from tasks.transport.http import HttpReader

R = Redactor(b"0123456789abcdef")


class Handler(BaseHTTPRequestHandler):
    """Paths that behave in every way."""

    posts: list[str] = []
    headers_seen: list[str] = []

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self.headers_seen.append(self.headers.get("Authorization", ""))
        path = self.path.partition("?")[0]
        if path == "/slow":
            time.sleep(2)
        if path.startswith("/to"):
            self._send(
                302, b"", {"/to-here": "/ok", "/to-there": f"http://127.0.0.2:{_port(self)}/ok"}.get(path, "/to")
            )
        elif path == "/big":
            self._send(200, b'"' + b"x" * 100_000 + b'"')
        elif path == "/html":
            self._send(200, b"<html>")
        elif path[1:].isdigit():
            self._send(int(path[1:]), b'{"error": "token=canary99 is bad"}')
        else:
            self._send(200, json.dumps({"path": self.path, "token": "canary99"}).encode())

    def do_POST(self) -> None:
        self.posts.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._send(307, b"", "/ok") if self.path == "/moved" else self._send(200, b'{"done": true}')

    def _send(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _port(handler: BaseHTTPRequestHandler) -> int:
    return handler.connection.getsockname()[1]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that answers on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def error_of(url: str, path: str = "/", **options: float) -> TransportError:
    """The error of a GET."""
    with pytest.raises(TransportError) as caught:
        HttpReader(url, R, **options).get(path)  # type: ignore[arg-type]
    return caught.value


def test_json_comes_back_and_the_shown_text_is_clean(url: str) -> None:
    reply = HttpReader(url, R).get("/x?token=canary99&a=1")
    assert reply.body["path"] == "/x?token=canary99&a=1"
    assert "canary99" not in reply.text + reply.url


@pytest.mark.parametrize(
    ("path", "why"),
    [("/401", UnknownReason.DENIED), ("/403", UnknownReason.DENIED), ("/404", UnknownReason.FAILED), ("/500", UnknownReason.FAILED),
        ("/html", UnknownReason.UNPARSABLE)],
)
def test_answers_that_are_none(url: str, path: str, why: UnknownReason) -> None:
    error = error_of(url, path)
    assert error.reason is why
    assert "canary99" not in str(error)
    assert error.command == f"GET {url}{path}"


def test_time_outs_and_refusals(url: str) -> None:
    assert error_of(url, "/slow", timeout_s=0.3).reason is UnknownReason.TIMED_OUT
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        assert error_of(f"http://127.0.0.1:{s.getsockname()[1]}").reason is UnknownReason.UNREACHABLE
    assert error_of("http://no-such-name.invalid").reason is UnknownReason.UNREACHABLE


def test_redirects_stay_on_the_host_and_posts_follow_none(url: str) -> None:
    assert HttpReader(url, R).get("/to-here").body["path"] == "/ok"
    assert "not followed" in error_of(url, "/to-there").detail
    assert "redirects" in error_of(url, "/to-for-ever").detail
    Handler.posts.clear()
    with pytest.raises(TransportError, match="not followed"):
        HttpReader(url, R).post("/moved", {"a": 1})
    assert HttpReader(url, R).post("/x", {"a": 1}).body == {"done": True}
    assert len(Handler.posts) == 2


def test_large_answers_are_cut_off(url: str) -> None:
    with pytest.raises(TransportError, match="larger than 1000"):
        HttpReader(url, R, limit=1000).get("/big")


def test_the_token_comes_from_the_environment_and_is_never_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THIS_TESTS_TOKEN", "plainword99")
    HttpReader(url, R, token_env="THIS_TESTS_TOKEN").get("/ok")
    assert Handler.headers_seen[-1] == "Bearer plainword99"
    with pytest.raises(TransportError) as caught:
        HttpReader(url, R, token_env="THIS_TESTS_TOKEN").get("/404?x=plainword99")
    assert "plainword99" not in str(caught.value)
    monkeypatch.delenv("THIS_TESTS_TOKEN")
    with pytest.raises(TransportError, match="THIS_TESTS_TOKEN"):
        HttpReader(url, R, token_env="THIS_TESTS_TOKEN")


def test_a_proxy_is_not_used_for_loopback(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert HttpReader(url, R).get("/ok").status == 200
