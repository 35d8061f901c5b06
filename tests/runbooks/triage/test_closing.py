"""Which line a program's words end with: a warning of no known cause ends nothing, an error does, whatever calls itself so."""

import pytest

from runbooks.triage.closing import closing_error

START = "Server initialized"


@pytest.mark.parametrize(
    "line",
    [
        "# WARNING: The TCP backlog setting of 511 cannot be enforced because somaxconn is set to the lower value of 128.",
        "2026-03-02 11:59:30 WARN pool - cannot enlarge the buffer, going on with 4",
        "[INFO] could not find an optional plugin, skipped",
    ],
)
def test_a_line_that_calls_itself_a_warning_or_less_ends_nothing(line: str) -> None:
    assert closing_error([START, line]) == ()


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-02 11:59:30 ERROR pool - cannot enlarge the buffer",
        "worker [0] NCCL WARN Call to frobnicate failed: cannot enlarge the buffer",
        "WARNING: giving up: FATAL: cannot enlarge the buffer",
        "cannot enlarge the buffer",
    ],
)
def test_any_other_failure_does(line: str) -> None:
    assert closing_error([START, line])[-1] == line
