"""A real etcd and real agents for each test."""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd import Etcd, real_etcd
from tests.support.torchrun import Agents


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with real_etcd(tmp_path) as server:
        yield server


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    started = Agents(tmp_path)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def alone() -> Iterator[None]:
    """Holds a lock of the whole machine: the node's reading sees every torchrun that runs here, of other tests too."""
    with (Path(tempfile.gettempdir()) / "gpu-runbooks-tests-torchrun.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
