"""Log-ins that fail, rebuilt on real sshd instances with their own logs and accounts, walked and read by the product."""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.sshd import make_key, public_key
from runbooks.core.fleet import Fleet, KeySource, Reports
from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.parsers.ssh_text import SshdMessage, ban_s, parse_accepted, parse_sshd_log
from runbooks.ssh.diagnose import Limits, diagnose
from runbooks.ssh.evidence import Evidence
from tasks.context import Context
from tasks.ssh.read import gather_ssh_auth_failure
from tasks.transport.open import HostPool
from tests.support.sshd_room import Room

VALUES = load_runbook("ssh-auth-failure").limit_values()
PENALTY = "drop connection #0 from [127.0.0.1]:60624 on [127.0.0.1]:22 penalty: connections without attempting authentication"


def look(room: Room, folder: Path, **fields: Any) -> tuple[Evidence, Diagnosis]:
    """One run of the runbook on that server."""
    fleet = room.fleet(folder, **fields)
    pool = HostPool()
    try:
        seen = gather_ssh_auth_failure(Context(fleet=fleet, target=room.name, open_host=pool, limits=VALUES))
    finally:
        pool.close_all()
    return seen, diagnose(type(seen).model_validate_json(seen.model_dump_json()), Limits(**VALUES))


def slugs(d: Diagnosis) -> list[tuple[str, Certainty]]:
    return [(c.slug, c.certainty) for c in d.causes]


SURE, LIKELY = Certainty.CONFIRMED, Certainty.LIKELY


@contextmanager
def served(folder: Path, **given: Any) -> Iterator[Room]:
    """A real sshd, stopped at the end."""
    room = Room(folder, **given).start()
    try:
        yield room
    finally:
        room.stop()


@contextmanager
def dropping(room: Room, said: str) -> Iterator[int]:
    """In the server's place a listener that closes each connection and writes that line into the server's log, as sshd does for a
    penalty: the sshd of this machine may be older than penalties are."""
    with socket.socket() as s:
        s.bind((room.address, 0))
        s.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = s.accept()
                except OSError:
                    return
                with room.log.open("a") as f:
                    f.write(said + "\n")
                client.close()

        threading.Thread(target=serve, daemon=True).start()
        port = int(s.getsockname()[1])
        config = room.folder / "config"  # by its port the server of a log-in is found among those of this machine
        config.write_text(re.sub(r"^Port \d+$", f"Port {port}", config.read_text(), flags=re.M))
        yield port
        s.shutdown(socket.SHUT_RDWR)


@contextmanager
def holding(room: Room) -> Iterator[None]:
    """One connection that never logs in."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.create_connection((room.address, room.port)) as held:
            if held.recv(100).startswith(b"SSH-2.0"):
                yield
                return
        time.sleep(0.2)
    raise AssertionError("no connection was let in")


@pytest.mark.incident("T2-16", came="right", fed="readers", known=True)
def test_the_address_is_penalised(folder: Path) -> None:
    with served(folder) as room, dropping(room, PENALTY) as port:
        seen, d = look(room, folder, port=port)
    assert isinstance(seen.far, Known)
    assert slugs(d) == [("address-penalised", SURE)]
    assert any("without attempting authentication" in x for x in d.causes[0].evidence)
    assert any("rotate keys" in x for x in d.must_not)
    assert not d.plans


@pytest.mark.incident("T2-16", came="right", fed="readers", known=True, twin="another address is penalised; nothing is said")
def test_another_address_is_penalised(folder: Path) -> None:
    with served(folder) as room:
        with dropping(room, PENALTY.replace("[127.0.0.1]:60624", "[198.51.100.7]:60624")) as port:
            assert slugs(look(room, folder, port=port)[1]) == [("address-penalised", LIKELY)]
        with dropping(room, "Server listening on 127.0.0.1 port 22.") as port:
            assert slugs(look(room, folder, port=port)[1]) == [("banner-closed", SURE)]


@pytest.mark.incident("T2-16", came="right", fed="readers", known=True, twin="MaxStartups, by a real sshd")
def test_too_many_that_have_not_logged_in(folder: Path) -> None:
    with served(folder, options={"MaxStartups": "1:100:1"}) as room:
        with holding(room):
            _, d = look(room, folder)
            _, blind = look(room, folder, way=False)
        assert slugs(d) == [("too-many-unauthenticated", SURE)]
        assert any("past MaxStartups" in x for x in d.causes[0].evidence)
        assert slugs(blind) == [("too-many-unauthenticated", SURE)], "sshd says it to the connection itself"


def test_how_long_a_penalty_lasts() -> None:
    settings = "crash:90 authfail:5 refuseconnection:10 noauth:300 grace-exceeded:10 max:600 min:15"
    (line,) = parse_sshd_log(f"Dec 11 10:01:08 node-a sshd[31213]: {PENALTY}")
    assert (line.said, line.about) == (SshdMessage.PENALTY, "127.0.0.1")
    assert ban_s(line.line, settings) == 300
    assert ban_s(PENALTY.replace("connections without attempting", "failed"), settings) == 5
    assert ban_s(PENALTY, "") is None


@pytest.mark.incident("T2-18", came="right", fed="readers", known=True)
def test_sshd_reads_another_file(folder: Path) -> None:
    with served(folder, options={"AuthorizedKeysFile": str(folder / "test-authorized-keys")}) as room:
        _, d = look(room, folder)
    assert slugs(d) == [("authorized-keys-elsewhere", SURE)]
    said = d.causes[0].evidence[0]
    assert str(room.keys) in said
    assert str(folder / "test-authorized-keys") in said
    assert not d.plans


@pytest.mark.incident("T2-18", came="right", fed="readers", known=True, twin="the file that sshd reads, without the key")
def test_the_key_is_in_neither(folder: Path) -> None:
    with served(folder) as room:
        room.keys.write_text(public_key(make_key(folder / "other")) + "\n")
        _, d = look(room, folder)
    assert slugs(d) == [("key-not-registered", SURE)]
    assert any("was last written" in x for x in d.causes[0].evidence)


def test_a_key_that_was_let_in_before_was_taken_out(folder: Path) -> None:
    """sshd's own Accepted line of an earlier log-in, and the time of the file."""
    with served(folder) as room:
        assert look(room, folder)[1].state is State.HEALTHY
        room.keys.write_text("")
        _, d = look(room, folder)
    assert slugs(d) == [("key-not-registered", SURE)]
    assert any("was let in before" in x and "Accepted publickey for op" in x for x in d.causes[0].evidence)
    assert parse_accepted("Accepted publickey for op from 10.0.0.1 port 5 ssh2: ED25519 SHA256:abc")[0].fingerprint == "SHA256:abc"


@pytest.mark.incident("SH01", came="right", fed="readers", known=True)
def test_a_key_without_its_last_newline(folder: Path) -> None:
    with served(folder) as room:
        given = folder / "given"
        given.write_text(room.key.read_text().rstrip("\n"))
        given.chmod(0o600)
        _, d = look(room, folder, key=KeySource(file=str(given)))
    assert ("key-file-unparsable", SURE) in slugs(d) or d.state is State.HEALTHY, "openssh of this machine may read it"
    assert not any(c.slug in ("key-not-registered", "key-pair-mismatch") for c in d.causes)


@pytest.mark.incident("SH03", came="right", fed="readers", known=True)
def test_the_key_file_is_the_public_half(folder: Path) -> None:
    with served(folder) as room:
        given = folder / "given"
        given.write_text(public_key(room.key) + "\n")
        given.chmod(0o600)
        _, d = look(room, folder, key=KeySource(file=str(given)))
    assert d.causes[0].slug == "key-is-public"
    assert not d.plans


@pytest.mark.incident("SH05", came="right", fed="readers", known=True)
def test_the_home_belongs_to_another_user(folder: Path) -> None:
    with served(folder) as room:
        os.chown(room.home, 14, 50)
        _, d = look(room, folder)
    assert d.causes[0].slug == "home-of-another-user"
    assert d.causes[0].certainty is SURE


@pytest.mark.incident("SH14", came="right", fed="readers", known=True)
def test_no_sshd_in_the_image(folder: Path) -> None:
    room = Room(folder)  # never started
    node = room.node(user="op", connect_timeout_s=3)
    fleet = Fleet(nodes=(node,), reports=Reports(folder=str(folder / "reports")))
    pool = HostPool()
    try:
        seen = gather_ssh_auth_failure(Context(fleet=fleet, target=room.name, open_host=pool, limits=VALUES))
    finally:
        pool.close_all()
    d = diagnose(seen, Limits(**VALUES))
    assert slugs(d)[0] == ("no-sshd", SURE)
    assert any("rotate keys" in x for x in d.must_not)
