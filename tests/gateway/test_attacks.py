"""Hostile connections to a real listening gateway: slow, idle, too large, ambiguous. It goes on answering the others."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
import uvicorn

from deployments.gateway import connections
from deployments.gateway import service as module
from deployments.gateway.connections import server_config
from tests.gateway.test_doors import BEARER, BODY, World, quiet_events, signed

HEAD = b"POST /alerts/alertmanager HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"t" * 32 + b"\r\n"


class Listening:
    """The application behind the gateway's own way to listen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server = uvicorn.Server(server_config(world.app, world.settings.model_copy(update={"port": 0})))
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.port = int(self.server.servers[0].sockets[0].getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def open(self, first: bytes = b"") -> socket.socket:
        """A connection that has sent so much."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        made.sendall(first)
        return made

    def raw(self, request: bytes) -> bytes:
        """What comes back until the gateway closes, or a second passes."""
        with self.open(request) as s:
            s.settimeout(0.7)
            got = b""
            try:
                while part := s.recv(65536):
                    got += part
            except TimeoutError:
                pass
            return got

    def works(self) -> bool:
        """True if a sender that is believed is answered."""
        return httpx.post(f"{self.url}/alerts/alertmanager", content=BODY, headers=BEARER).status_code == 200

    def close(self) -> None:
        """Ends it."""
        self.server.should_exit = True
        self._thread.join(10)


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    monkeypatch.setattr(connections, "HEADERS_S", 0.5)
    world = World(tmp_path)
    with patch.object(module, "place", world.place), patch.object(module, "resolve", world.place), quiet_events():
        made = Listening(world)
        yield made
        made.close()


def test_idle_and_slow_connections_lose_their_place(listening: Listening) -> None:
    assert listening.works()
    held = [listening.open(first) for first in (b"", b"P", HEAD) for _ in range(connections.MOST_CONNECTIONS // 3 + 1)]
    deadline = time.monotonic() + 10
    while not listening.works():  # 503 while they hold all places
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for s in held:
        s.close()
    kept = listening.open(HEAD + b"Content-Length: 2\r\n\r\n{}")
    kept.settimeout(5)
    assert kept.recv(65536)
    kept.sendall(b"POST /al")  # a second request that never comes
    assert kept.recv(100) == b""


def test_too_large_bodies_and_headers_are_not_read_to_their_end(listening: Listening) -> None:
    big = HEAD + b"Content-Length: 10485760\r\n\r\n" + b"x" * 65536
    began = time.monotonic()
    assert b" 413 " in listening.raw(big).split(b"\r\n")[0]
    assert time.monotonic() - began < 3
    assert b" 400 " in listening.raw(HEAD + b"X-A: " + b"a" * 100_000).split(b"\r\n")[0]
    nested = json.dumps({"version": "4", "alerts": []}).replace("[]", "[" * 200_000 + "]" * 200_000).encode()
    assert httpx.post(f"{listening.url}/alerts/alertmanager", content=nested, headers=BEARER).status_code == 400
    assert listening.works()


AMBIGUOUS = [
    b"Content-Length: 2\r\nContent-Length: 200\r\n\r\n{}",
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
    b"Content-Length: -1\r\n\r\n{}",
    b"Transfer-Encoding: gzip\r\n\r\n{}",
    b"Content-Length: 2\r\nX: a\rb\r\n\r\n{}",
]


@pytest.mark.parametrize("rest", AMBIGUOUS)
def test_ambiguous_requests_are_refused(listening: Listening, rest: bytes) -> None:
    answer = listening.raw(HEAD + rest)
    assert answer.split(b" ")[1] in (b"400", b"501"), answer
    assert b" 200 " not in answer  # also not for what was smuggled in behind
    assert listening.world.placed == []


def test_of_two_headers_the_right_one_does_not_help_the_wrong_one(listening: Listening) -> None:
    wrong = ("authorization", "Bearer " + "x" * 32)
    for headers in ([wrong, *BEARER.items()], [wrong, *signed(time.time()).items()]):
        assert httpx.post(f"{listening.url}/alerts/alertmanager", content=BODY, headers=headers).status_code == 401
    assert listening.world.placed == []


def test_a_replay_in_another_spelling_is_one(listening: Listening) -> None:
    url, first = f"{listening.url}/alerts/alertmanager", signed(time.time())
    again = first | {"x-signature": f"sha256={first['x-signature']}"}
    grafana = {k.replace("x-", "x-grafana-alerting-"): v for k, v in first.items()}
    answers = [httpx.post(url, content=BODY, headers=h).json() for h in (first, again, grafana)]
    assert ["note" in a for a in answers] == [False, True, True]


def test_a_page_in_a_browser_cannot_send_to_a_gateway_without_authentication(tmp_path: Path) -> None:
    world = World(tmp_path, open=True)
    with patch.object(module, "place", world.place), quiet_events():
        plain = {"content-type": "text/plain"}
        assert world.post(BODY, headers=plain | {"origin": "http://evil.example"}).status_code == 401
        assert world.placed == []
        assert world.post(BODY, headers=plain).status_code == 200
