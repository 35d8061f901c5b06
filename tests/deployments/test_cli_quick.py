"""Short commands answer at once. These measure processor time and begin when little else runs (tests/support/sharing_out.py)."""

import resource
from pathlib import Path

import pytest

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
