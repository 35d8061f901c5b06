"""What a test needs from the machine: found, or skipped with the line that installs it (a failure with CI=true)."""

import shutil

import pytest


def need_program(name: str, package: str) -> str:
    """Path of the program `name`; skips the test and names the Debian package when it is not there."""
    path = shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin") or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is missing. As root: apt-get install -y --no-install-recommends {package}")
    return path
