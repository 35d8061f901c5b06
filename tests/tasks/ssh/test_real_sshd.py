"""Real sshd instances, misconfigured one by one: the right stage, the right cause, and where it can be, a proven repair."""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.sshd import make_key, public_key
from deployments.ports import free_port
from runbooks.core.fleet import Fleet, KeySource
from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.ssh.diagnose import Limits, diagnose
from runbooks.ssh.evidence import Evidence, Stage
from tasks.context import ActionRefused, Context
from tasks.ssh import act_keys as ssh_keys
from tasks.ssh.read import gather_ssh_auth_failure
from tasks.transport.open import HostPool
from tests.support.sshd_room import Room

LIMITS = load_runbook("ssh-auth-failure").limit_values()
ACTS = {
    "normalise-key": ssh_keys.normalise_key,
    "restrict-key-mode": ssh_keys.restrict_key_mode,
    "remove-known-host": ssh_keys.remove_known_host,
    "repair-ssh-path": ssh_keys.repair_ssh_path,
    "add-public-key": ssh_keys.add_public_key,
}


@dataclass
class Case:
    """One way to break a log-in."""

    name: str
    stage: Stage
    slug: str
    certainty: str = "confirmed"
    options: dict[str, str] = field(default_factory=dict)
    room: dict[str, Any] = field(default_factory=dict)
    before: Callable[[Room], object] = lambda _room: None
    after: Callable[[Room], dict[str, Any]] = lambda _room: {}
    fixed_by: tuple[str, ...] = ()
    words: str = ""


def own_key(room: Room, text: str, mode: int = 0o600) -> dict[str, Any]:
    """The key file of the log-in with this text; the room's own stays."""
    path = room.folder / "given"
    path.write_bytes(text.encode())
    path.chmod(mode)
    return {"key": KeySource(file=str(path)), "public_key": public_key(room.key)}


def key_text(room: Room) -> str:
    return room.key.read_text()


def other_key(room: Room, kind: str = "ed25519", bits: int = 0) -> Path:
    path = room.folder / f"other_{kind}"
    return path if path.exists() else make_key(path, kind, bits=bits)


def authorize_no_one(room: Room) -> None:
    room.keys.write_text(public_key(other_key(room)) + "\n")


def certificate(room: Room, *options: str) -> dict[str, Any]:
    """A key of its own with a certificate by the room's CA."""
    key = make_key(room.folder / "certified")
    sign = ["ssh-keygen", "-q", "-s", str(room.folder / "ca"), "-I", "op-id", "-z", "7", *options, f"{key}.pub"]
    subprocess.run(sign, check=True)
    return {"key": KeySource(file=str(key))}


def with_ca(room: Room) -> None:
    make_key(room.folder / "ca")
    room.options["TrustedUserCAKeys"] = str(room.folder / "ca.pub")


def new_host_key(room: Room, pin: bool) -> dict[str, Any]:
    """The server was rebuilt: known_hosts has an old key of the same type."""
    old = make_key(room.folder / "old_host")
    room.known_hosts.write_text(f"[{room.address}]:{room.port} {public_key(old)}\n")
    return {"host_key": public_key(room.host_keys[0])} if pin else {}


def key_of_another(room: Room) -> dict[str, Any]:
    new_host_key(room, False)
    with room.known_hosts.open("a") as f:
        f.write(f"other-pod.example {public_key(room.host_keys[0])}\n")
    return {}


def rsa(room: Room) -> dict[str, Any]:
    key = other_key(room, "rsa", 2048)
    room.keys.write_text(public_key(key) + "\n")
    return {"key": KeySource(file=str(key))}


def owned_by(path: Callable[[Room], Path], uid: int) -> Callable[[Room], None]:
    return lambda room: os.chown(path(room), uid, uid)


def moded(path: Callable[[Room], Path], mode: int) -> Callable[[Room], None]:
    return lambda room: path(room).chmod(mode)


def stopped(room: Room) -> dict[str, Any]:
    room.signal(signal.SIGSTOP)
    return {"connect_timeout_s": 1}


def closed_port(room: Room) -> dict[str, Any]:
    return {"port": free_port()}


def host_certificate(room: Room) -> dict[str, Any]:
    ca = make_key(room.folder / "host_ca")
    name = f"[{room.address}]:{room.port}"
    room.known_hosts.write_text(f"@cert-authority {name} {public_key(ca)}\n")
    return {}


def sign_host(room: Room) -> None:
    ca = make_key(room.folder / "host_ca")
    sign = ["ssh-keygen", "-q", "-s", str(ca), "-h", "-I", "host", "-n", room.address, f"{room.host_keys[0]}.pub"]
    subprocess.run(sign, check=True)
    room.options["HostCertificate"] = f"{room.host_keys[0]}-cert.pub"


def trust_ca(room: Room) -> dict[str, Any]:
    name = f"[{room.address}]:{room.port}"
    room.known_hosts.write_text(f"@cert-authority {name} {public_key(room.folder / 'host_ca')}\n")
    return {}


def revoked(room: Room) -> dict[str, Any]:
    name = f"[{room.address}]:{room.port}"
    room.known_hosts.write_text(f"@revoked {name} {public_key(room.host_keys[0])}\n")
    return {}


def putty(room: Room) -> dict[str, Any]:
    return own_key(room, "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: x\n")


def encrypted(room: Room) -> dict[str, Any]:
    return {"key": KeySource(file=str(make_key(room.folder / "locked", passphrase="not-a-real-one")))}


def mismatch(room: Room) -> dict[str, Any]:
    return {"key": KeySource(file=str(other_key(room))), "public_key": public_key(room.key)}


S = Stage
OK_PUB = {"public_key": "{pub}"}
CASES = [
    Case("well", S.DONE, ""),
    Case("rsa-well", S.DONE, "", after=rsa),
    Case("certificate-well", S.DONE, "", before=with_ca, after=lambda r: certificate(r, "-n", "op", "-V", "-5m:+5m")),
    # own side
    Case("no-key-file", S.AUTH, "private-half-missing", after=lambda r: own_key(r, "x") | {"key": KeySource(file="/nonexistent/k")}),
    Case("public-given", S.AUTH, "key-is-public", after=lambda r: own_key(r, public_key(r.key) + " c\n")),
    Case("putty", S.AUTH, "key-is-putty", after=putty),
    Case("truncated", S.AUTH, "key-truncated", after=lambda r: own_key(r, key_text(r)[:180])),
    Case("encrypted", S.AUTH, "key-encrypted", after=encrypted),
    Case("no-final-newline", S.DONE, "key-file-unparsable", after=lambda r: own_key(r, key_text(r).rstrip("\n")),
         fixed_by=("normalise-key",), words="newline"),
    Case("crlf", S.DONE, "key-file-unparsable", after=lambda r: own_key(r, key_text(r).replace("\n", "\r\n")),
         fixed_by=("normalise-key",), words="CRLF"),
    Case("literal-newlines", S.DONE, "key-file-unparsable", after=lambda r: own_key(r, key_text(r).replace("\n", "\\n")),
         fixed_by=("normalise-key",), words="works here and fails with ssh"),
    Case("quoted", S.DONE, "key-file-unparsable", after=lambda r: own_key(r, f'"{key_text(r)}"'), fixed_by=("normalise-key",)),
    Case("key-mode", S.DONE, "key-file-modes", after=lambda r: own_key(r, key_text(r), 0o644), fixed_by=("restrict-key-mode",)),
    Case("mismatch", S.AUTH, "key-pair-mismatch", after=mismatch),
    # wire
    Case("no-name", S.NAME, "name-unresolved", after=lambda _r: {"host": "no-such-host.invalid"}),
    Case("nothing-listens", S.TCP, "no-sshd", after=closed_port),
    Case("stopped", S.BANNER, "banner-missing", after=stopped),
    Case("old-kex", S.KEX, "algorithms-do-not-meet", options={"KexAlgorithms": "sntrup761x25519-sha512@openssh.com"}),
    Case("unknown-host", S.HOST_KEY, "host-key-unknown", after=lambda _r: {"known_hosts": "/nonexistent/known_hosts"}),
    Case("host-key-changed", S.HOST_KEY, "host-key-changed", after=lambda r: new_host_key(r, False)),
    Case("another-machine", S.HOST_KEY, "host-key-of-another-machine", "likely", after=key_of_another),
    Case("vouched", S.DONE, "stale-known-host", after=lambda r: new_host_key(r, True), fixed_by=("remove-known-host",)),
    Case("revoked", S.HOST_KEY, "host-key-revoked", after=revoked),
    Case("host-certificate", S.HOST_KEY, "host-certificate", before=sign_host, after=trust_ca),
    Case("no-publickey", S.METHODS, "publickey-not-offered", options={"PubkeyAuthentication": "no", "PasswordAuthentication": "yes"}),
    Case("no-session", S.SESSION, "sessions-exhausted", options={"MaxSessions": "0"}),
    Case("nologin", S.COMMAND, "shell-missing", room={"shell": "/usr/sbin/nologin"}),
    # far side
    Case("file-mode", S.AUTH, "server-strict-modes", before=moded(lambda r: r.keys, 0o666), fixed_by=("repair-ssh-path",)),
    Case("folder-mode", S.AUTH, "server-strict-modes", before=moded(lambda r: r.keys.parent, 0o777), fixed_by=("repair-ssh-path",)),
    Case("home-mode", S.AUTH, "server-strict-modes", before=moded(lambda r: r.home, 0o775), fixed_by=("repair-ssh-path",)),
    Case("home-owner", S.AUTH, "home-of-another-user", before=owned_by(lambda r: r.home, 14), fixed_by=("repair-ssh-path",)),
    Case("keys-owner", S.AUTH, "server-strict-modes", before=owned_by(lambda r: r.keys, 14), fixed_by=("repair-ssh-path",)),
    Case("keys-of-root", S.AUTH, "authorized-keys-unreadable", before=owned_by(lambda r: r.keys, 0)),
    Case("locked", S.AUTH, "account-locked", room={"password": "!"}),
    Case("no-shell", S.AUTH, "shell-missing", room={"shell": "/nonexistent/sh"}),
    Case("no-user", S.AUTH, "wrong-user", after=lambda _r: {"user": "nobody-at-all"}),
    Case("root", S.AUTH, "root-login-refused", options={"PermitRootLogin": "no"}, after=lambda _r: {"user": "root"}),
    Case("deny", S.AUTH, "user-not-allowed", options={"DenyUsers": "op"}),
    Case("not-registered", S.AUTH, "key-not-registered", before=authorize_no_one,
         after=lambda r: {"public_key": public_key(r.key)}, fixed_by=("add-public-key",)),
    Case("no-file", S.AUTH, "key-not-registered", before=lambda r: shutil.rmtree(r.keys.parent),
         after=lambda r: {"public_key": public_key(r.key)}, fixed_by=("add-public-key",)),
    Case("from", S.AUTH, "key-restricted", before=lambda r: r.keys.write_text(f'from="10.9.9.9" {public_key(r.key)}\n')),
    Case("rsa-not-taken", S.AUTH, "key-type-not-accepted", options={"PubkeyAcceptedAlgorithms": "ssh-ed25519"}, after=rsa),
    Case("sha1-only", S.AUTH, "key-type-not-accepted", options={"PubkeyAcceptedAlgorithms": "ssh-rsa"}, after=rsa),
    Case("second-factor", S.AUTH, "second-factor",
         options={"AuthenticationMethods": "publickey,password", "PasswordAuthentication": "yes"}),
    Case("certificate-expired", S.AUTH, "certificate-expired", before=with_ca,
         after=lambda r: certificate(r, "-n", "op", "-V", "-2h:-1h")),
    Case("certificate-early", S.AUTH, "certificate-not-yet-valid", before=with_ca,
         after=lambda r: certificate(r, "-n", "op", "-V", "+1h:+2h")),
    Case("certificate-principal", S.AUTH, "certificate-wrong-principal", "likely", before=with_ca,
         after=lambda r: certificate(r, "-n", "alice", "-V", "-5m:+5m")),
    Case("certificate-unknown-ca", S.AUTH, "certificate-refused", before=lambda r: make_key(r.folder / "ca"),
         after=lambda r: certificate(r, "-n", "op", "-V", "-5m:+5m")),
]  # fmt: skip


@contextmanager
def context_of(fleet: Fleet, target: str = "room") -> Iterator[Context]:
    """A run's context on the server."""
    pool = HostPool()
    try:
        yield Context(fleet=fleet, target=target, open_host=pool, limits=LIMITS)
    finally:
        pool.close_all()


def look(context: Context) -> tuple[Evidence, Diagnosis]:
    evidence = gather_ssh_auth_failure(context)
    assert Evidence.model_validate(evidence.model_dump(mode="json")) == evidence, "a report holds the evidence"
    return evidence, diagnose(evidence, Limits.model_validate(LIMITS))


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


SOAK = (
    "crlf",
    "literal-newlines",
    "quoted",
    "folder-mode",
    "home-mode",
    "keys-owner",
    "no-file",
    "sha1-only",
)  # further ways to one cause
EACH = [pytest.param(c, id=c.name, marks=pytest.mark.soak if c.name in SOAK else ()) for c in CASES]


@pytest.mark.parametrize("case", EACH)
def test_each_way_to_break_a_log_in(case: Case, folder: Path) -> None:
    room = Room(folder, options=case.options, **case.room)
    case.before(room)
    with room.start():
        fleet = room.fleet(folder, **case.after(room))
        with context_of(fleet) as context:
            evidence, d = look(context)
            shown = f"{d.headline}\n{d.model_dump_json(indent=1)}\n{evidence.model_dump_json(indent=1)}"
            assert isinstance(evidence.wire, Known), shown
            wire = evidence.wire.value
            assert wire.stage is case.stage, shown
            by_ssh = 1 if case.slug == "host-certificate" else 0
            assert wire.connections <= 2 + by_ssh, "no more connections than needed"
            made = room.read_log().count("Connection from") - 1  # the start of the server was looked for with one
            assert made <= wire.connections, "every connection is counted"
            assert "-----BEGIN" not in evidence.model_dump_json() + d.model_dump_json()
            assert d.must_not
            if not case.slug:
                assert d.state is State.HEALTHY, shown
                return
            assert d.state is State.UNHEALTHY, shown
            assert (d.causes[0].slug, str(d.causes[0].certainty)) == (case.slug, case.certainty), shown
            assert case.words in " ".join(d.causes[0].evidence)
            steps = [s for p in d.plans for s in p.steps]
            assert tuple(s.kind for s in steps) == case.fixed_by, shown
            if not steps:
                return
            for step in steps:
                assert ACTS[step.kind](step, context).said
            after, proof = look(context)
            assert isinstance(after.wire, Known)
            assert proof.state is State.HEALTHY, f"{proof.headline}\n{after.model_dump_json(indent=1)}"
            assert after.wire.value.stage is Stage.DONE
            assert not after.wire.value.remembered
            with pytest.raises(ActionRefused):
                ACTS[steps[0].kind](steps[0], context)


def test_one_key_is_offered_once_a_run(folder: Path) -> None:
    """A second look in the same run repeats the answer instead of asking again."""
    room = Room(folder)
    authorize_no_one(room)
    with room.start(), context_of(room.fleet(folder)) as context:
        look(context)
        evidence, d = look(context)
        assert isinstance(evidence.wire, Known)
        assert evidence.wire.value.remembered
        assert d.causes[0].slug == "key-not-registered"
        assert room.read_log().count("Failed publickey") == 1
        for _ in range(4):
            evidence, d = look(context)
        assert isinstance(evidence.wire, Known)
        assert evidence.wire.value.connections <= 6
        assert d.causes[0].slug == "not-asked-again"
        assert d.state is State.CANNOT_TELL


def test_without_another_way_in_right_and_wrong_key_are_not_told_apart(folder: Path) -> None:
    room = Room(folder)
    authorize_no_one(room)
    with room.start(), context_of(room.fleet(folder, way=False)) as context:
        _, d = look(context)
        assert d.state is State.CANNOT_TELL
        assert [c.slug for c in d.causes] == ["publickey-denied"]
        assert not d.plans


@pytest.mark.parametrize(("says", "slug"), [(b"", "banner-closed"), (b"HTTP/1.1 400 Bad Request\r\n", "banner-closed")])
def test_a_listener_that_closes_at_once(folder: Path, says: bytes, slug: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                peer.sendall(says)
                peer.close()

        threading.Thread(target=serve, daemon=True).start()
        room = Room(folder)
        node = room.node(port=listener.getsockname()[1], user="op", connect_timeout_s=2)
        with context_of(Fleet(nodes=(node,))) as context:
            _, d = look(context)
            assert d.causes[0].slug == slug
            assert d.causes[0].certainty is Certainty.CONFIRMED


@contextmanager
def taken_place(room: Room) -> Iterator[None]:
    """Holds an unauthenticated connection; the one with which the server's start was seen may still end."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with socket.create_connection((room.address, room.port)) as held:
            if held.recv(8) == b"SSH-2.0-":
                yield
                return
        time.sleep(0.05)
    raise AssertionError("the server gives no banner")


def test_a_server_at_its_limit_of_new_connections_closes_before_its_banner(folder: Path) -> None:
    """A real sshd, whose one place for unauthenticated connections is taken."""
    room = Room(folder, options={"MaxStartups": "1:100:1", "LoginGraceTime": "30"})
    with room.start(), taken_place(room), context_of(room.fleet(folder)) as context:
        evidence, d = look(context)
        assert (d.causes[0].slug, d.causes[0].certainty) == ("too-many-unauthenticated", Certainty.CONFIRMED), d.headline
        assert isinstance(evidence.wire, Known)
        assert evidence.wire.value.connections == 1, "a sweep must not add to what it complains about"
        assert not d.plans


def test_many_nodes_at_once_are_one_incident(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two other nodes' newest reports refuse the same key."""
    import json

    room = Room(folder)
    authorize_no_one(room)
    with room.start():
        base = room.fleet(folder)
        more = tuple(room.node(name=f"n{i}", user="op") for i in (1, 2))
        fleet = base.model_copy(update={"nodes": (*base.nodes, *more)})
        with context_of(fleet) as context:
            evidence, _ = look(context)
        for n in more:
            place = folder / "reports" / "ssh-auth-failure" / n.name
            place.mkdir(parents=True)
            (place / "latest.json").write_text(json.dumps({"evidence": evidence.model_dump(mode="json")}))
        with context_of(fleet) as context:
            _, d = look(context)
        assert d.causes[0].slug == "bad-key-rollout"


def test_an_agent_with_many_keys_uses_up_the_tries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(folder, options={"MaxAuthTries": "2"})
    started = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    values = dict(part.split("=", 1) for part in started.split(";") if part.strip().startswith("SSH_") and "=" in part)
    values = {k.strip(): v for k, v in values.items()}
    monkeypatch.setenv("SSH_AUTH_SOCK", started.split("SSH_AUTH_SOCK=")[1].split(";")[0])
    pid = int(started.split("SSH_AGENT_PID=")[1].split(";")[0])
    try:
        for i in range(4):
            subprocess.run(["ssh-add", "-q", str(make_key(folder / f"agent{i}"))], check=True)
        with room.start():
            with context_of(room.fleet(folder, key=KeySource(agent=True))) as context:
                _, d = look(context)
                assert d.causes[0].slug == "too-many-keys"
            subprocess.run(["ssh-add", "-q", str(room.key)], check=True)
            named = room.fleet(folder, key=KeySource(agent=True), public_key=public_key(room.key))
            with context_of(named) as context:
                _, d = look(context)
                assert d.state is State.HEALTHY, d.headline
    finally:
        os.kill(pid, signal.SIGTERM)
