"""Pytest hooks: each test of the fault harness becomes a line of the scorecard, each server is audited at its end."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.scorecard import notes


def pytest_runtest_setup() -> None:
    """A new test, a new line."""
    notes.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Writes what the test did and whether the promises held."""
    report = yield
    if notes.active() and (report.when == "call" or (report.when == "setup" and report.failed)):
        _write(item, report)
    return report


def _write(item: pytest.Item, report: pytest.TestReport) -> None:
    from flows.engine.steps import began

    marked = item.get_closest_marker("scored")
    given: dict[str, Any] = dict(marked.kwargs) if marked else {}
    faults = list(notes.NOW.faults)
    if not faults or marked in item.own_markers:
        faults.append((str(given.get("fault", notes.NO_FAULT)), str(given.get("point", ""))))
    pairs = notes.kinds_begun(began) if report.when == "call" else []
    if "runbook" in given:
        pairs = [(str(given["runbook"]), str(k)) for k in given.get("kinds", ("",))]
    notes.write(
        test=item.nodeid,
        held=report.passed,
        faults=[list(f) for f in faults],
        acted=[list(p) for p in pairs],
        tries=notes.NOW.tries,
        seconds=round(report.duration, 1),
    )


def server_begins(home: str) -> None:
    """Has the server's database note what the audit needs and no row keeps."""
    if notes.active():
        from tests.scorecard.freezes import watch_freezes

        watch_freezes(Path(home))


def audit_server(home: str) -> None:
    """Counts broken promises in everything that a server recorded, before it is stopped."""
    if not notes.active():
        return
    from tests.scorecard.audit import DETAILS, audit_home

    notes.write(audit=audit_home(Path(home)), details=DETAILS, home=home, worker=os.environ.get("PYTEST_XDIST_WORKER", ""))
