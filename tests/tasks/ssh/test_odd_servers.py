"""Servers that let the key in and then behave oddly: each look ends in time and says what was seen."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED

from deployments.lab.sshd import make_key, public_key
from runbooks.core.fleet import Fleet, KeySource, Node
from runbooks.core.reading import Known
from runbooks.ssh.evidence import Stage
from tests.tasks.ssh.test_real_sshd import context_of, look


class Odd(paramiko.ServerInterface):
    """Lets every key in; `way` is what it does with a command."""

    def __init__(self, way: str) -> None:
        self.way = way

    def get_allowed_auths(self, username: str) -> str:
        """Keys only."""
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Every key."""
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Every channel."""
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        """Takes the command, in its way."""
        if self.way == "deaf":
            time.sleep(8)
        if self.way == "flood":
            threading.Thread(target=flood, args=(channel,), daemon=True).start()
        elif self.way != "silent":
            threading.Thread(target=end, args=(channel, self.way), daemon=True).start()
        return self.way != "refuse"


def end(channel: Any, way: str) -> None:
    """Output ends; no exit status is ever sent."""
    time.sleep(0.1)
    if way == "no-status":
        channel.shutdown_write()


def flood(channel: Any) -> None:
    """Something else than was asked for, without end."""
    try:
        while True:
            channel.sendall(b"x" * 32_768)
    except OSError:
        return


@contextmanager
def server(way: str, key: Path) -> Iterator[int]:
    """A server on a free port."""
    host = paramiko.Ed25519Key.from_private_key_file(str(key))
    made: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                transport = paramiko.Transport(peer)
                transport.add_server_key(host)
                made.append(transport)
                try:
                    transport.start_server(server=Odd(way))
                except (paramiko.SSHException, EOFError):
                    continue

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        for transport in made:
            transport.close()


WAYS = [
    ("no-status", "not told"),
    ("deaf", ""),
    ("refuse", ""),
    pytest.param("silent", "no answer", marks=pytest.mark.soak),
    pytest.param("flood", "no answer", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("way", "words"), WAYS)
def test_a_look_ends_in_time(folder: Path, way: str, words: str) -> None:
    own, host = make_key(folder / "own"), make_key(folder / "host")
    with server(way, host) as port:
        node = Node(name="odd", host="127.0.0.1", port=port, user="op", key=KeySource(file=str(own)),
                    host_key=public_key(host), connect_timeout_s=2)  # fmt: skip
        began = time.monotonic()
        with context_of(Fleet(nodes=(node,)), "odd") as context:
            evidence, d = look(context)
        assert time.monotonic() - began < 60
    assert isinstance(evidence.wire, Known)
    assert evidence.wire.value.stage is Stage.COMMAND, evidence.wire.value
    assert words in evidence.wire.value.command_says
    assert len(evidence.wire.value.command_says) < 400
    assert d.causes[0].slug == "shell-does-not-answer"
