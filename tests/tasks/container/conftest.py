"""A private Docker engine for this folder's tests."""

from collections.abc import Iterator

import pytest

from tests.support.docker_engine import Engine, docker_engine


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found
