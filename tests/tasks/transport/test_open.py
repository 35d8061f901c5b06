"""One host per node and run; targets without a fleet file."""

from pathlib import Path

import pytest

from runbooks.core.fleet import Node
from tasks.transport.base import TransportError
from tasks.transport.local import LocalHost
from tasks.transport.open import HostPool, open_host, parse_target
from tests.support.sshd import Sshd
from tests.support.waiting import until


def test_pool_gives_one_host_per_node_and_closes_all(shared_sshd: Sshd) -> None:
    pool = HostPool()
    node, local = shared_sshd.node(), Node(name="here", local=True)
    assert pool(node) is pool(node)
    assert isinstance(pool(local), LocalHost)
    twin = pool(shared_sshd.node(name="twin"))
    assert twin.name == "twin"
    before = shared_sshd.read_log().count("Accepted publickey")
    assert twin.run(["echo", "1"]).out + pool(node).run(["echo", "2"]).out == "1\n2\n"
    assert shared_sshd.read_log().count("Accepted publickey") - before == 1
    pool.close_all()
    with pytest.raises(TransportError):
        twin.run(["true"])
    with pytest.raises(RuntimeError):
        pool(node)


def test_nodes_behind_one_jump_host_share_its_connection(tmp_path: Path) -> None:
    with Sshd(tmp_path, "jump") as jump, Sshd(tmp_path, "a") as a, Sshd(tmp_path, "b") as b:
        way = {
            "host": jump.address,
            "port": jump.port,
            "key": {"file": str(jump.key)},
            "known_hosts": str(jump.known_hosts),
        }
        pool = HostPool()
        for inner in (a, b):
            assert pool(inner.node(jump=way)).run(["echo", inner.name]).out == f"{inner.name}\n"
        pool.close_all()
        assert jump.read_log().count("Accepted publickey") == 1


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("me@h", "me", "h", 22),
        ("me@h:2200", "me", "h", 2200),
        ("h", None, "h", 22),
        ("me@10.0.0.7:22", "me", "10.0.0.7", 22),
        ("me@[fe80::1]:2200", "me", "fe80::1", 2200),
    ],
)
def test_targets(
    text: str, user: str | None, host: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    for name in ("id_rsa", "id_ecdsa"):
        (tmp_path / ".ssh" / name).write_text("")
    node = parse_target(text)
    assert (node.user, node.host, node.port) == (user, host, port)
    assert node.key is not None
    assert node.key.file == str(tmp_path / ".ssh" / "id_ecdsa")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/x")
    agent = parse_target(text).key
    assert agent is not None
    assert agent.agent


@pytest.mark.parametrize("text", ["", "a b@h", "me@h:x", "me@", "me@h:99999", "-oProxyCommand=x", "me@h;id"])
def test_bad_targets(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/x")
    with pytest.raises(ValueError):  # noqa: PT011 - pydantic's or our own
        parse_target(text)


def test_a_target_without_any_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(TransportError, match="no key"):
        parse_target("me@h")


def test_nothing_is_connected_before_the_first_command(shared_sshd: Sshd) -> None:
    before = shared_sshd.read_log()
    open_host(shared_sshd.node()).close()
    assert shared_sshd.read_log() == before


def test_an_early_connection_is_there_before_the_first_command(own_sshd: Sshd) -> None:
    with HostPool() as pool:
        pool.connect_early(Node(name="here", local=True))
        pool.connect_early(own_sshd.node())
        until(lambda: "Accepted publickey" in own_sshd.read_log(), 20, "its log-in")
