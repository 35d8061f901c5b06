"""The state folder is for its user only, also one that was there before."""

import os
import sys
from pathlib import Path

import pytest

from deployments import server
from deployments.state import state_dir


def test_an_older_folder_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "state"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(home))
    assert state_dir().stat().st_mode & 0o777 == 0o700


def test_logs_are_readable_by_this_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    old = os.umask(0o022)
    try:
        proc = server._spawn("said", [sys.executable, "-c", "print('hello')"], {})
    finally:
        os.umask(old)
    os.waitpid(proc.pid, 0)
    log = tmp_path / "logs/said.log"
    assert log.read_text() == "hello\n"
    assert log.stat().st_mode & 0o777 == 0o600
