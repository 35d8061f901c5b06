"""Hostile connections to a real listening gateway: slow, idle, too large, ambiguous. It goes on answering the others."""

import json
import socket
import ssl
import subprocess
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
from tests.gateway.test_doors import BEARER, BODY, World, own_clock, quiet_events, signed
from tests.support.need import need_program

HEAD = b"POST /alerts/alertmanager HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"t" * 32 + b"\r\n"


class Listening:
    """The application behind the gateway's own way to listen."""

    def __init__(self, world: World, tls: Path | None = None) -> None:
        self.world = world
        cert = {"tls_cert": str(tls), "tls_key": str(tls)} if tls else {}
        self.server = uvicorn.Server(server_config(world.app, world.settings.model_copy(update={"port": 0} | cert)))
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.port = int(self.server.servers[0].sockets[0].getsockname()[1])
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=str(tls)) if tls else True

    def open(self, first: bytes = b"") -> socket.socket:
        """A connection that has sent so much."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        made.sendall(first)
        return made

    def raw(self, request: bytes) -> bytes:
        """What comes back until the gateway closes, or nothing more comes."""
        with self.open(request) as s:
            s.settimeout(20)
            got = b""
            try:
                while part := s.recv(65536):
                    got += part
                    s.settimeout(0.7)
            except TimeoutError:
                pass
            return got

    def works(self) -> bool:
        """True if a sender that is believed is answered."""
        answer = httpx.post(f"{self.url}/alerts/alertmanager", content=BODY, headers=BEARER, verify=self.verify, timeout=20)
        return answer.status_code == 200

    def close(self) -> None:
        """Ends it."""
        self.server.should_exit = True
        self._thread.join(10)


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    monkeypatch.setattr(connections, "HEADERS_S", 0.5)
    world = World(tmp_path)
    with patch.object(module, "place", world.place), patch.object(module, "resolve", world.place), quiet_events(), own_clock():
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
    got = b""
    while b'"}' not in got:
        part = kept.recv(65536)
        assert part, got
        got += part
    kept.sendall(b"POST /al")  # a second request that never comes
    assert kept.recv(100) == b""


def test_the_body_of_a_sender_with_too_many_refusals_is_not_read(listening: Listening) -> None:
    head = HEAD.replace(b"Authorization: Bearer " + b"t" * 32, b"X-Signature: " + b"0" * 64 + b"\r\nX-Signature-Timestamp: 1")
    junk = {"X-Signature": "0" * 64, "X-Signature-Timestamp": "1"}
    with httpx.Client() as client:
        codes = [client.post(f"{listening.url}/alerts/alertmanager", content=b"{}", headers=junk).status_code for _ in range(20)]
    assert (codes[0], codes[-1]) == (401, 429)
    began = time.monotonic()
    assert b" 429 " in listening.raw(head + b"Content-Length: 1000000\r\n\r\n").split(b"\r\n")[0]  # none of it was sent
    assert time.monotonic() - began < 10
    assert listening.works(), "a right token is believed by its header, from the same address"


def test_many_silent_connections_do_not_hold_up_a_sender(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before their time is up: of too many that have not sent a request, the longest silent one goes."""
    monkeypatch.setattr(connections, "HEADERS_S", 60)
    held = [listening.open(first) for first in (b"", b"POST /al") for _ in range(connections.MOST_CONNECTIONS)]
    began = time.monotonic()
    assert listening.works()
    assert time.monotonic() - began < 30
    for s in held:
        s.close()


def test_connections_that_never_begin_tls_do_not_stop_the_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the files that a process usually may open; a believed sender is served meanwhile."""
    monkeypatch.setattr(connections, "HANDSHAKE_S", 12)  # more than a busy machine takes for all of it
    need_program("openssl", "openssl")
    argv = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    pem = tmp_path / "both.pem"
    subprocess.run([*argv.split(), "-keyout", pem, "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    pem.write_text(pem.read_text() + (tmp_path / "cert.pem").read_text())
    connections.allow_open_files()
    world = World(tmp_path)
    with patch.object(module, "place", world.place), patch.object(module, "resolve", world.place), quiet_events(), own_clock():
        gateway = Listening(world, pem)
        held = [gateway.open() for _ in range(1_200)]
        began = time.monotonic()
        assert gateway.works()
        assert time.monotonic() - began < connections.HANDSHAKE_S  # not only when theirs are over
        held[0].settimeout(connections.HANDSHAKE_S + 3)
        assert held[0].recv(1) == b"", "a handshake that never begins is ended"
        for s in held:
            s.close()
        gateway.close()


def test_too_large_bodies_and_headers_are_not_read_to_their_end(listening: Listening) -> None:
    big = HEAD + b"Content-Length: 10485760\r\n\r\n" + b"x" * 65536
    began = time.monotonic()
    assert b" 413 " in listening.raw(big).split(b"\r\n")[0]
    assert time.monotonic() - began < 10
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
    with patch.object(module, "place", world.place), quiet_events(), own_clock():
        plain = {"content-type": "text/plain"}
        assert world.post(BODY, headers=plain | {"origin": "http://evil.example"}).status_code == 401
        assert world.placed == []
        assert world.post(BODY, headers=plain).status_code == 200
