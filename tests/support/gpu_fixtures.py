"""Fixtures of the stub driver: built once per session, one state per test."""

import shutil
from pathlib import Path

import pytest

from deployments.lab.gpu import StubDriver, build_stub
from tests.support.need import need_program


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> StubDriver:
    """The compiled stub."""
    need_program("cc", "gcc libc6-dev")
    return build_stub(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def driver(built: StubDriver, tmp_path: Path) -> StubDriver:
    """A stub driver of this test's own."""
    return copied(built, tmp_path / "gpu")


def copied(built: StubDriver, folder: Path) -> StubDriver:
    """The same library with a state file of its own."""
    own = StubDriver(folder)
    own.library.parent.mkdir(parents=True)
    own.smi.parent.mkdir(parents=True)
    shutil.copy(built.library, own.library)
    own.smi.write_text(built.smi.read_text().replace(str(built.state), str(own.state)))
    own.smi.chmod(0o755)
    own.show()
    return own
