"""Log-ins that fail for what is offered: six other keys first, a server from before SHA-2, a library that cannot read the key."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko import ed25519key
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL

from deployments.lab.sshd import make_key, public_key
from runbooks.core.fleet import Fleet, KeySource, Node
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from tests.incidents.test_places_ssh import LIKELY, SURE, look, served, slugs
from tests.tasks.ssh.test_odd_servers import Odd
from tests.tasks.ssh.test_real_sshd import context_of
from tests.tasks.ssh.test_real_sshd import look as walk

POSSIBLE = Certainty.POSSIBLE


@pytest.fixture
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real ssh-agent with six keys that are not this server's."""
    started = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    found = dict(part.split("=", 1) for part in started.replace("\n", "").split(";") if "=" in part)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    for n in range(6):
        subprocess.run(["ssh-add", "-q", str(make_key(folder / f"other{n}"))], check=True)
    yield
    os.kill(int(found["SSH_AGENT_PID"]), signal.SIGTERM)


@pytest.mark.incident("SH07", came="right", fed="readers", known=True)
@pytest.mark.usefixtures("agent")
def test_six_keys_of_the_agent_before_the_right_one(folder: Path) -> None:
    with served(folder) as room:
        subprocess.run(["ssh-add", "-q", str(room.key)], check=True)
        _, d = look(room, folder, key=KeySource(agent=True))
    assert slugs(d)[0] == ("too-many-keys", SURE), d
    assert "key-not-registered" not in [s for s, c in slugs(d) if c is SURE], "the right key was never offered"
    assert any("MaxAuthTries" in x for x in d.must_not)
    assert not d.plans


@pytest.mark.incident("SH07", came="right", fed="readers", known=True, twin="the one key is named")
@pytest.mark.usefixtures("agent")
def test_the_one_key_is_named(folder: Path) -> None:
    with served(folder) as room:
        subprocess.run(["ssh-add", "-q", str(room.key)], check=True)
        _, d = look(room, folder, key=KeySource(agent=True), public_key=public_key(room.key))
    assert not [c for c in d.causes if c.certainty in (SURE, LIKELY)], d.causes


@pytest.mark.incident("SH07", came="right", fed="readers", known=True, twin="the agent's keys are few and none of them is registered")
def test_a_wrong_key_alone(folder: Path) -> None:
    with served(folder) as room:
        _, d = look(room, folder, key=KeySource(file=str(make_key(folder / "wrong"))))
    assert slugs(d) == [("key-not-registered", SURE)]


class Old(Odd):
    """A server from before RFC 8308 and 8332: it names no signatures and takes RSA with SHA-1 only."""

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """RSA comes signed with SHA-2."""
        return int(AUTH_FAILED if key.get_name() == "ssh-rsa" else AUTH_SUCCESSFUL)


class Mute(paramiko.Transport):
    """Its end of the connection sends no list of signatures."""

    def _send_message(self, data: Any) -> None:
        if data.asbytes()[:1] != paramiko.common.cMSG_EXT_INFO:
            super()._send_message(data)  # type: ignore[misc]  # not in its stubs


@contextmanager
def old_server(host: Path, names: bool) -> Iterator[int]:
    """On a free port; `names`: it names the signatures that it takes, as servers do since 2016."""
    made: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                transport = (paramiko.Transport if names else Mute)(peer)
                transport.local_version = "SSH-2.0-OpenSSH_9.2" if names else "SSH-2.0-OpenSSH_6.6.1"
                transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(str(host)))
                made.append(transport)
                try:
                    transport.start_server(server=Old("no-status"))
                except (paramiko.SSHException, EOFError):
                    continue

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        for transport in made:
            transport.close()


def against_old(folder: Path, kind: str, names: bool) -> Diagnosis:
    own, host = make_key(folder / "own", kind), make_key(folder / "host")
    with old_server(host, names) as port:
        node = Node(name="old", host="127.0.0.1", port=port, user="op", key=KeySource(file=str(own)),
                    host_key=public_key(host), connect_timeout_s=2)  # fmt: skip
        with context_of(Fleet(nodes=(node,)), "old") as context:
            evidence, d = walk(context)
    assert isinstance(evidence.wire, Known)
    assert bool(evidence.wire.value.signatures) is names
    return d


@pytest.mark.incident("SH09", came="open", fed="readers", known=True)
def test_rsa_against_a_server_from_before_sha_2(folder: Path) -> None:
    """Its own side cannot be read: two are left, with what tells them apart, and neither is confirmed."""
    d = against_old(folder, "rsa", names=False)
    assert slugs(d) == [("key-type-not-accepted", POSSIBLE), ("publickey-denied", POSSIBLE)]
    assert d.state is State.CANNOT_TELL
    assert any("PubkeyAcceptedAlgorithms=+ssh-rsa" in x and "one host" in x for x in d.causes[0].decides)
    assert any("every host" in x for x in d.must_not)
    assert not d.plans


@pytest.mark.incident("SH09", came="right", fed="readers", known=True, twin="the server names SHA-2 signatures and refuses the key")
def test_rsa_against_a_server_that_names_sha_2(folder: Path) -> None:
    assert slugs(against_old(folder, "rsa", names=True)) == [("publickey-denied", POSSIBLE)]


@pytest.mark.incident("SH09", came="right", fed="readers", known=True, twin="a key of another type against the old server")
def test_a_key_that_the_old_server_takes(folder: Path) -> None:
    d = against_old(folder, "ed25519", names=False)
    assert "key-type-not-accepted" not in [c.slug for c in d.causes]
    assert "publickey-denied" not in [c.slug for c in d.causes]


@pytest.mark.incident("SH09", came="right", fed="readers", known=True, twin="a real sshd that takes SHA-1 only, and says so")
def test_a_server_that_takes_sha_1_only(folder: Path) -> None:
    with served(folder, options={"PubkeyAcceptedAlgorithms": "ssh-rsa", "HostKeyAlgorithms": "ssh-ed25519"}) as room:
        own = make_key(folder / "rsa", "rsa")
        room.keys.write_text(public_key(own) + "\n")
        _, d = look(room, folder, key=KeySource(file=str(own)))
    assert slugs(d)[0] == ("key-type-not-accepted", SURE)
    assert not d.plans


def unpad_of_2_4_2(data: bytes) -> bytes:
    """paramiko 2.4.2's `unpad`, which takes the last letter of a comment for padding."""
    padding_length = data[-1]
    if padding_length > 16:
        raise paramiko.SSHException("Invalid key")
    for i in range(1, padding_length + 1):
        if data[-i] != (padding_length - i + 1):
            raise paramiko.SSHException("Invalid key")
    return data[:-padding_length]


def commented(room_key: Path, comment: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-c", "-C", comment, "-P", "", "-f", str(room_key)], check=True, capture_output=True)


@pytest.mark.incident("SH11", came="right", fed="readers", known=True)
def test_a_comment_of_thirteen_letters_and_a_library_of_2018(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(folder) as room:
        commented(room.key, "x" * 13)
        monkeypatch.setattr(ed25519key, "_unpad_openssh", unpad_of_2_4_2)
        _, d = look(room, folder)
    assert slugs(d)[0][0] == "library-key-bug"
    assert slugs(d)[0][1] in (SURE, LIKELY)
    assert any("paramiko" in x and "damaged" not in x for x in d.causes[0].evidence), "the version that has the fault is named"
    assert any("rotate" in x for x in d.must_not)
    assert not {"key-truncated", "key-file-unparsable", "key-encrypted"} & {c.slug for c in d.causes}
    assert not d.plans


@pytest.mark.incident("SH11", came="right", fed="readers", known=True, twin="one letter more in the comment")
def test_a_comment_of_fourteen_letters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(folder) as room:
        commented(room.key, "x" * 14)
        monkeypatch.setattr(ed25519key, "_unpad_openssh", unpad_of_2_4_2)
        assert look(room, folder)[1].state is State.HEALTHY


@pytest.mark.incident("SH11", came="right", fed="readers", known=True, twin="the file is really cut short")
def test_a_key_that_nothing_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(folder) as room:
        commented(room.key, "x" * 13)
        lines = room.key.read_text().splitlines()
        room.key.write_text("\n".join([*lines[:3], lines[-1]]) + "\n")
        monkeypatch.setattr(ed25519key, "_unpad_openssh", unpad_of_2_4_2)
        _, d = look(room, folder)
    assert slugs(d)[0] == ("key-truncated", SURE)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"AllowUsers": "alice bob"}, [("user-not-allowed", SURE)]),
        ({"AllowGroups": "no-such-group"}, [("user-not-allowed", SURE)]),
        ({"DenyUsers": "o?"}, [("user-not-allowed", SURE)]),
        ({"AllowUsers": "op"}, []),
    ],
)
def test_the_lists_of_the_server_when_its_log_says_nothing(folder: Path, options: dict[str, str], expected: Any) -> None:
    with served(folder, options=options | {"LogLevel": "QUIET"}) as room:
        _, d = look(room, folder)
    assert slugs(d) == expected
    assert not d.plans
