"""A real etcd and real agents for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd import Etcd, real_etcd
from tests.support.torchrun import Agents, alone_on_this_machine


@pytest.fixture
def etcd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Etcd]:
    """The system's etcd; with `indirect` parameters that version."""
    with real_etcd(tmp_path, version=getattr(request, "param", "")) as server:
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
    """One real torchrun test at a time."""
    with alone_on_this_machine():
        yield
