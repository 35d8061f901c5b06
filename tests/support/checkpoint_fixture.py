"""Whole checkpoints, and one real S3 server, as pytest fixtures. Tests write below prefixes of their own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.ckpt_fleet import Shelf
    from tests.support.s3 import S3Server


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> "Shelf":
    """Whole torch checkpoints by step, written once."""
    from tests.support.ckpt_fleet import Shelf

    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[S3Server]":
    """A server for the whole test process."""
    from tests.support.s3 import running

    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers ask the server as its administrator."""
    from tests.support.s3 import ADMIN

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ADMIN[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ADMIN[1])
