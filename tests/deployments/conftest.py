"""The command line with a state folder and server of a file's own."""

from collections.abc import Iterator

import pytest

from tests.support.cli import Cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Its server is started by the first command that needs it."""
    made = Cli(tmp_path_factory.mktemp("home"))
    yield made
    made("down", "--now")
