"""Shared by the engine's runs on workers that do not come up: one worker, its database and everything around it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.lab.sshd import Sshd
from tests.support.postgres import Postgres
from tests.tasks.spawning.conftest import POD, World


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of this module."""
    server = Postgres().start()
    yield server
    server.stop()


@pytest.fixture
def world(folder: Path, postgres: Postgres) -> Iterator[World]:
    """One worker and everything around it."""
    with Sshd(folder, "pod", environment={"RUNPOD_POD_ID": POD}) as sshd:
        made = World(folder, postgres, sshd)
        yield made
        made.runpod.close()
        made.railway.close()
