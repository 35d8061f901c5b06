"""Short commands answer at once. These measure processor time and begin when little else runs (tests/support/sharing_out.py)."""

import os
import resource
from pathlib import Path

import pytest

from deployments.cli import main as cli
from tests.deployments.test_cli import call, report_of_this_machine


@pytest.mark.parametrize("command", [["--help"], ["list"], ["run", "--help"], ["replay"]])
def test_quick(command: list[str], tmp_path: Path) -> None:
    """Under half a second of processor time, the best of five: other tests share the machine's clock."""
    args = [*command, str(report_of_this_machine(tmp_path))] if command == ["replay"] else command
    best = 99.0
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert call(*args).returncode in (0, 1, 3)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert best < 0.5


def test_settings_that_name_a_place_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command starts inherits them and runs elsewhere: `GPU_RUNBOOKS_HOME=state` means the folder of the person."""
    monkeypatch.chdir(tmp_path)
    for name in cli.PLACES:
        monkeypatch.setenv(name, "here")
    monkeypatch.setenv("GPU_RUNBOOKS_POLICY", "")
    assert cli.main(["--version"]) == 0
    assert {os.environ[n] for n in cli.PLACES} == {str(tmp_path / "here"), ""}
