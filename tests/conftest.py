"""For every test: with CI=true a skipped test is a failure that says what to install."""

import os
from collections.abc import Generator

import pytest
from xdist.remote import Producer

from tests.support.sharing_out import PROVED, ByFile, rank

pytest_plugins = ["tests.support.folder_fixture", "tests.support.rig_fixture", "tests.scorecard.plugin"]
IN_CI = os.environ.get("CI", "").lower() == "true"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI (an expected failure stays what it is)."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: nothing may be skipped in CI: {why}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: nothing may be skipped in CI: {report.longrepr}"
    return report


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """The tests of a file share one process and its servers."""
    return ByFile(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """What `make prove` runs, and `make test` leaves to it."""
    if item.nodeid.startswith(PROVED):
        item.add_marker("prove")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that nothing long is left for the end."""
    items.sort(key=lambda item: rank(item.nodeid))
