"""Who is let in and who is believed: host keys by host and port, one authentication per key."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbooks.core.fleet import KeySource
from runbooks.core.reading import UnknownReason
from tasks.transport.base import TransportError
from tasks.transport.connect import HostKeyError
from tasks.transport.known_hosts import Fact
from tasks.transport.open import HostPool
from tasks.transport.ssh import SshHost
from tests.support.sshd import Sshd, make_key, public_key


def works(sshd: Sshd, **fields: object) -> bool:
    """True if a command runs with the node changed by `fields`."""
    host = SshHost(sshd.node(**fields))
    try:
        return host.run(["echo", "in"]).out == "in\n"
    finally:
        host.close()


def denied(sshd: Sshd, **fields: object) -> TransportError:
    """The error of connecting with the node changed by `fields`."""
    with pytest.raises(TransportError) as caught:
        works(sshd, **fields)
    assert caught.value.reason is UnknownReason.DENIED
    return caught.value


def known(tmp_path: Path, text: str) -> dict[str, str]:
    """A known_hosts file with that text."""
    path = tmp_path / "kh"
    path.write_text(text)
    return {"known_hosts": str(path)}


def fact(error: TransportError) -> Fact:
    """The fact of a host key error."""
    assert isinstance(error, HostKeyError)
    return error.fact


def test_unknown_host_is_never_added(shared_sshd: Sshd, tmp_path: Path) -> None:
    before = shared_sshd.read_log().count("Accepted")
    fields = known(tmp_path, "")
    error = denied(shared_sshd, **fields)
    assert fact(error) is Fact.UNKNOWN
    assert "SHA256:" in error.detail
    assert fact(denied(shared_sshd, **fields)) is Fact.UNKNOWN
    assert (tmp_path / "kh").read_text() == ""
    assert shared_sshd.read_log().count("Accepted") == before  # no key was shown to a server that is not trusted
    assert "does not exist" in denied(shared_sshd, known_hosts=str(tmp_path / "nothing")).detail


def test_changed_host_names_both_fingerprints(shared_sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    error = denied(shared_sshd, **known(tmp_path, f"[127.0.0.1]:{shared_sshd.port} {public_key(other)}\n"))
    assert fact(error) is Fact.CHANGED
    assert error.detail.count("SHA256:") == 2


@pytest.mark.parametrize("index", [0, 1, 2])
def test_any_kind_of_host_key_alone_is_enough(shared_sshd: Sshd, tmp_path: Path, index: int) -> None:
    line = f"[127.0.0.1]:{shared_sshd.port} {public_key(shared_sshd.host_keys[index])}\n"
    assert works(shared_sshd, **known(tmp_path, line))


def test_revoked_host_key_wins_over_a_trusted_one(shared_sshd: Sshd, tmp_path: Path) -> None:
    line = f"[127.0.0.1]:{shared_sshd.port} {public_key(shared_sshd.host_keys[0])}\n"
    assert fact(denied(shared_sshd, **known(tmp_path, line + "@revoked * " + line.split(" ", 1)[1]))) is Fact.REVOKED


def test_hashed_names(shared_sshd: Sshd, tmp_path: Path) -> None:
    fields = known(tmp_path, shared_sshd.known_hosts.read_text())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", fields["known_hosts"]], check=True, capture_output=True)
    assert "127.0.0.1" not in (tmp_path / "kh").read_text()
    assert works(shared_sshd, **fields)


def test_a_key_for_another_port_does_not_count(shared_sshd: Sshd, tmp_path: Path) -> None:
    error = denied(shared_sshd, **known(tmp_path, f"127.0.0.1 {public_key(shared_sshd.host_keys[0])}\n"))
    assert fact(error) is Fact.UNKNOWN
    assert "port 22, which is another server" in error.detail


def test_a_certificate_authority_cannot_be_checked_and_that_is_said(shared_sshd: Sshd, tmp_path: Path) -> None:
    line = f"@cert-authority [127.0.0.1]:{shared_sshd.port} {public_key(make_key(tmp_path / 'ca'))}\n"
    error = denied(shared_sshd, **known(tmp_path, line))
    assert fact(error) is Fact.CANNOT_VERIFY
    assert "pin host_key" in error.detail


def test_a_pinned_key_replaces_known_hosts(shared_sshd: Sshd, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nothing")
    assert works(shared_sshd, host_key=public_key(shared_sshd.host_keys[1]), known_hosts=nowhere)
    assert fact(denied(shared_sshd, host_key=public_key(make_key(tmp_path / "other")))) is Fact.CHANGED
    assert "not of the form" in denied(shared_sshd, host_key="SHA256:abc").detail


@pytest.mark.parametrize(("kind", "bits"), [("ed25519", 0), ("ecdsa", 256), ("ecdsa", 521), ("rsa", 2048)])
def test_user_keys_of_every_kind(tmp_path: Path, kind: str, bits: int) -> None:
    key = make_key(tmp_path / "user", kind, bits=bits)
    with Sshd(tmp_path, "kinds") as sshd:
        sshd.authorize(key)
        assert works(sshd, key=KeySource(file=str(key)))


@pytest.mark.parametrize("early", [False, True])
def test_a_wrong_key_is_tried_once_in_a_run(own_sshd: Sshd, tmp_path: Path, early: bool) -> None:
    wrong = KeySource(file=str(make_key(tmp_path / "wrong")))
    pool = HostPool()
    if early:
        pool.connect_early(own_sshd.node(name="a", key=wrong))
    for name in ("a", "a", "same-machine"):
        host = pool(own_sshd.node(name=name, key=wrong))
        for _ in range(3):
            with pytest.raises(TransportError, match=r"refused key file") as caught:
                host.run(["true"])
            assert caught.value.reason is UnknownReason.DENIED
    pool.close_all()
    log = own_sshd.read_log()
    assert log.count("Failed publickey") == 1
    assert log.count("Connection from") == 2  # the fixture's own check that it listens, and ours


@pytest.mark.parametrize("early", [False, True])
def test_a_good_key_authenticates_once(own_sshd: Sshd, early: bool) -> None:
    pool = HostPool()
    if early:
        pool.connect_early(own_sshd.node())
    for _ in range(5):
        pool(own_sshd.node()).run(["true"])
    pool.close_all()
    assert own_sshd.read_log().count("Accepted publickey") == 1
    assert "Failed" not in own_sshd.read_log()


def test_an_encrypted_key_is_said_so(own_sshd: Sshd, tmp_path: Path) -> None:
    for kind in ("ed25519", "rsa"):
        key = make_key(tmp_path / kind, kind, passphrase="canary-pass")
        error = denied(own_sshd, key=KeySource(file=str(key)))
        assert "encrypted" in error.detail
    assert "Failed publickey" not in own_sshd.read_log()


FORMS = {
    "as it is": lambda text: text,
    "literal newlines": lambda text: text.replace("\n", "\\n"),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "no last newline": lambda text: text.rstrip("\n"),
    "quoted": lambda text: '"' + text.replace("\n", "\\n") + '"',
    "blanks for newlines": lambda text: text.replace("\n", " "),
    "indented": lambda text: text.replace("\n", "\n    "),
}


@pytest.mark.parametrize("form", FORMS)
def test_key_text_in_the_environment(shared_sshd: Sshd, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("NODE_KEY", FORMS[form](shared_sshd.key.read_text()))
    assert works(shared_sshd, key=KeySource(env="NODE_KEY"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("ssh-ed25519 AAAA me", "this is a public key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----", "reads it as no key"),
        ("CANARY", "is not a private key"),
    ],
)
def test_bad_key_text_is_named_but_not_shown(
    shared_sshd: Sshd, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv("NODE_KEY", text)
    error = denied(shared_sshd, key=KeySource(env="NODE_KEY"))
    assert said in error.detail
    assert "NODE_KEY" in error.detail
    assert "CANARY" not in str(error)


def test_key_text_in_a_prefect_secret(shared_sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block is stood in for; what load and get give was checked on a real server."""
    from prefect.blocks.system import Secret

    def load(name: str, **_: object) -> Secret[str]:
        if name != "node-key":
            raise ValueError("Unable to find block document")
        return Secret(value=shared_sshd.key.read_text())

    monkeypatch.setattr(Secret, "load", staticmethod(load))
    assert works(shared_sshd, key=KeySource(secret="node-key"))
    assert "Prefect Secret other cannot be read" in denied(shared_sshd, key=KeySource(secret="other")).detail


def test_missing_and_unset_sources(shared_sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert "does not exist" in denied(shared_sshd, key=KeySource(file="/nowhere/key")).detail
    assert "SSH_AUTH_SOCK" in denied(shared_sshd, key=KeySource(agent=True)).detail


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A private ssh-agent in the environment."""
    sock = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    while not sock.exists():
        assert process.poll() is None
    monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
    yield dict(os.environ)
    process.terminate()
    process.wait()


def test_keys_from_an_agent(shared_sshd: Sshd, agent: dict[str, str]) -> None:
    subprocess.run(["ssh-add", "-q", str(shared_sshd.key)], check=True, env=agent)
    assert works(shared_sshd, key=KeySource(agent=True))
    assert works(shared_sshd, key=None)  # the fleet file names none: the agent


def test_an_empty_agent(shared_sshd: Sshd, agent: dict[str, str]) -> None:
    assert "the agent's keys" in denied(shared_sshd, key=KeySource(agent=True)).detail


def test_the_agent_is_not_asked_when_a_file_is_named(own_sshd: Sshd, agent: dict[str, str], tmp_path: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(own_sshd.key)], check=True, env=agent)
    denied(own_sshd, key=KeySource(file=str(make_key(tmp_path / "wrong"))))
    assert own_sshd.read_log().count("Failed publickey") == 1
    assert "Accepted" not in own_sshd.read_log()


def test_the_users_ssh_config_is_not_read(shared_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n  Port 1\n  User nobody\n  ProxyCommand false\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert works(shared_sshd)


def test_server_that_wants_no_keys(tmp_path: Path) -> None:
    with Sshd(tmp_path, "nokeys", options={"PubkeyAuthentication": "no", "PasswordAuthentication": "yes"}) as sshd:
        assert "does not take keys" in denied(sshd).detail
