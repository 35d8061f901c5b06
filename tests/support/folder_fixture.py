"""A folder for programs that run as other users."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass: pytest's own belongs to root alone."""
    path = Path(tempfile.mkdtemp(prefix="gpu-runbooks-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
