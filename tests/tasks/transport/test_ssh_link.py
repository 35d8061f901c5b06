"""Links that break: server killed, stopped, silent, absent."""

import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from deployments.ports import free_port
from runbooks.core.reading import UnknownReason
from tasks.transport.base import TransportError
from tasks.transport.ssh import SshHost
from tests.support.sshd import Sshd


def refused(host: SshHost, argv: list[str], timeout_s: float = 20) -> TransportError:
    """The error of that command."""
    with pytest.raises(TransportError) as caught:
        host.run(argv, timeout_s=timeout_s)
    return caught.value


def test_server_killed_in_mid_command(own_sshd: Sshd, tmp_path: Path) -> None:
    host = SshHost(own_sshd.node())
    host.run(["true"])
    timer = threading.Timer(1.0, own_sshd.cut)
    timer.start()
    script = f"echo $$ > {tmp_path}/pid; sleep 4; echo x >> {tmp_path}/late"
    error = refused(host, ["sh", "-c", script], timeout_s=2)
    assert error.reason is UnknownReason.UNREACHABLE
    assert "cut after" in error.detail
    assert "left running, pid " in error.detail
    assert "not started again" in refused(host, ["sh", "-c", script], timeout_s=2).detail
    time.sleep(3)
    assert not (tmp_path / "late").exists()  # the node's own limit ended it
    assert host.run(["echo", "back"]).out == "back\n"
    assert any("opened again" in n for n in host.notes)
    host.close()


def test_only_the_command_is_killed(own_sshd: Sshd) -> None:
    host = SshHost(own_sshd.node())
    error = refused(host, ["sh", "-c", "kill -KILL $PPID"], timeout_s=5)
    assert error.reason is UnknownReason.FAILED
    assert "killed" in error.detail
    host.close()


def test_a_stopped_server_process_does_not_hang_the_client(own_sshd: Sshd) -> None:
    host = SshHost(own_sshd.node(connect_timeout_s=1))
    host.run(["true"])
    import os

    sessions = own_sshd.sessions()
    for pid in sessions:
        os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        error = refused(host, ["true"], timeout_s=1)
        assert error.reason is UnknownReason.UNREACHABLE
        assert time.monotonic() - began < 30
    finally:
        for pid in sessions:
            os.kill(pid, signal.SIGCONT)
    host.close()


def test_a_stopped_listener_sends_no_banner(own_sshd: Sshd) -> None:
    own_sshd.signal(signal.SIGSTOP)
    host = SshHost(own_sshd.node(connect_timeout_s=1))
    began = time.monotonic()
    error = refused(host, ["true"])
    assert error.reason is UnknownReason.UNREACHABLE
    assert "no SSH banner" in error.detail
    assert time.monotonic() - began < 20
    began = time.monotonic()
    refused(host, ["false"])
    assert time.monotonic() - began < 0.9  # few probes per address: remembered
    host.close()


def test_nobody_listens(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path, "absent")
    error = refused(SshHost(sshd.node()), ["true"])
    assert error.reason is UnknownReason.UNREACHABLE
    assert "connection refused" in error.detail
    error = refused(SshHost(sshd.node(host="no-such-name.invalid")), ["true"])
    assert "cannot be resolved" in error.detail


def test_something_else_listens(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as server:
        threading.Thread(target=lambda: server.accept()[0].sendall(b"HTTP/1.1 400\r\n\r\n" * 200), daemon=True).start()
        error = refused(SshHost(Sshd(tmp_path, "x").node(port=port, connect_timeout_s=1)), ["true"])
    assert error.reason is UnknownReason.UNREACHABLE


def test_jump_host_and_its_verified_key(tmp_path: Path) -> None:
    with Sshd(tmp_path, "jump", address="127.0.0.2") as jump, Sshd(tmp_path, "inner", address="127.0.0.3") as inner:
        way = {"host": jump.address, "port": jump.port, "user": inner.node().user, "key": {"file": str(jump.key)}}
        host = SshHost(inner.node(jump=way | {"known_hosts": str(jump.known_hosts)}))
        assert host.run(["sh", "-c", 'echo "$SSH_CONNECTION"']).out.startswith("127.0.0.1 ")
        assert "jump host" in host.notes[0]
        host.close()
        assert "127.0.0.3" in inner.read_log()
        bad = SshHost(inner.node(jump=way | {"known_hosts": str(inner.known_hosts)}))
        error = refused(bad, ["true"])
        assert error.reason is UnknownReason.DENIED
        assert "jump host" in error.detail
        assert "is unknown" in error.detail
        bad.close()


def test_jump_host_that_cannot_reach_the_node(tmp_path: Path) -> None:
    with Sshd(tmp_path, "jump") as jump:
        way = {
            "host": jump.address,
            "port": jump.port,
            "key": {"file": str(jump.key)},
            "known_hosts": str(jump.known_hosts),
        }
        host = SshHost(Sshd(tmp_path, "absent").node(jump=way))
        error = refused(host, ["true"])
        host.close()
    assert error.reason is UnknownReason.UNREACHABLE
    assert "cannot reach" in error.detail
