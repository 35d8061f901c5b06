"""The engine rig as a pytest fixture."""

from collections.abc import Iterator

import pytest

from tests.support.engine_rig import Rig


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Server and zygote, for the whole test process."""
    made = Rig(tmp_path_factory.mktemp("rig"))
    with made.settings():
        made.begin()
        yield made
        made.close()
