"""Who listens at etcd's address, where a signal has stopped it: real listening processes, and the probe that looks for them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deployments.ports import free_port
from tasks.remote.probe import run_probe
from tasks.remote.probes.listeners import listens
from tasks.rendezvous.probes import rdzv_stopped
from tasks.transport.local import LocalHost
from tests.support.gpu_node import wait_state

LISTENS = """
import socket, sys, time
s = socket.socket()
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen()
print("listens", flush=True)
time.sleep(3000)
"""
ELSEWHERE = "192.0.2.99"  # no machine has it


@contextmanager
def listening(address: str, port: int, *, stopped: bool = True) -> Iterator[int]:
    """A process that listens there, stopped by SIGSTOP; its pid."""
    argv = [sys.executable, "-c", LISTENS, address, str(port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout is not None
            assert p.stdout.readline() == "listens\n"
            if stopped:
                os.kill(p.pid, signal.SIGSTOP)
                wait_state(p.pid, "T", 60)
            yield p.pid
        finally:
            p.kill()


def found(host: str, port: int) -> list[int]:
    """Pids that the probe names."""
    got = run_probe(LocalHost("node-a"), "rdzv_stopped", {"host": host, "port": port, "apart_s": 0.05}, timeout_s=300)
    return [one["pid"] for one in got["stopped"]]


def test_only_what_listens_at_that_address_is_named() -> None:
    """Another service at the same port of another address of this machine is somebody else's, and stopped for its own reason."""
    port = free_port()
    with listening("127.0.0.1", port) as etcd, listening("127.0.0.2", port) as other:
        assert found("127.0.0.1", port) == [etcd]
        assert found("127.0.0.2", port) == [other]
        assert found("127.0.0.3", port) == []
        assert found(ELSEWHERE, port) == []


def test_one_that_listens_at_every_address_is_named_for_those_that_the_machine_has() -> None:
    port = free_port()
    with listening("0.0.0.0", port) as etcd:  # noqa: S104
        assert found("127.0.0.1", port) == [etcd]
        assert found(ELSEWHERE, port) == []


INSIDE = f"""
import socket
from tests.tasks.rendezvous.test_silent import found, listening
socket.socket().bind(({ELSEWHERE!r}, 2379))
with listening("0.0.0.0", 2379) as etcd:
    assert found("127.0.0.1", 2379) == [etcd]
    assert found({ELSEWHERE!r}, 2379) == []
"""


def test_an_address_that_can_be_bound_is_not_this_machines_for_that() -> None:
    """With net.ipv4.ip_nonlocal_bind every address can be. In a network of its own."""
    switch = "ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind"
    argv = ["unshare", "-n", "sh", "-c", f'{switch} && exec "$@"', "sh", sys.executable, "-c", INSIDE]
    done = subprocess.run(argv, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_machine_whose_own_name_means_a_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Debian's installer writes it into /etc/hosts; etcd listens at the machine's other address."""
    port = free_port()
    row = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [row])
    with listening("127.0.0.2", port) as etcd:
        assert [one["pid"] for one in rdzv_stopped.stopped("node-1", port)] == [etcd]


def test_one_that_runs_is_not_named() -> None:
    port = free_port()
    with listening("127.0.0.1", port, stopped=False):
        assert found("127.0.0.1", port) == []


@pytest.mark.parametrize(
    ("row", "address", "there"),
    [
        ("0100007F", "127.0.0.1", True),
        ("0100007F", "127.0.0.2", False),
        ("00000000", "127.0.0.2", True),
        ("0000000000000000FFFF00000100007F", "127.0.0.1", True),
        ("0000000000000000FFFF00000100007F", "::1", False),
        ("00000000000000000000000001000000", "::1", True),
        ("B80D0120000000000000000005000000", "2001:db8::5", True),
        ("00000000000000000000000000000000", "127.0.0.1", True),
    ],
)
def test_rows_as_the_kernel_of_a_little_endian_machine_writes_them(row: str, address: str, there: bool) -> None:
    assert listens(row, [address]) == there
