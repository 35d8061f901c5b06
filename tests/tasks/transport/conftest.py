"""One real sshd per session; tests that break a server start their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.transport.ssh import SshHost
from tests.support.sshd import Sshd


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server that no test breaks."""
    with Sshd(tmp_path_factory.mktemp("sshd"), "shared", host_kinds=("ed25519", "rsa", "ecdsa")) as sshd:
        yield sshd


@pytest.fixture
def own_sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server to break."""
    with Sshd(tmp_path, "own") as sshd:
        yield sshd


@pytest.fixture
def host(shared_sshd: Sshd) -> Iterator[SshHost]:
    """A fresh connection to the shared server."""
    one = SshHost(shared_sshd.node())
    yield one
    one.close()
