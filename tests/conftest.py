"""For every test: with CI=true a skipped test is a failure that says what to install."""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer

from tests.support.sharing_out import LONG, PROVED, ByFile, rank

pytest_plugins = [
    "tests.support.own_folder",
    "tests.support.compiled",
    "tests.support.folder_fixture",
    "tests.support.rig_fixture",
    "tests.support.checkpoint_fixture",
    "tests.scorecard.plugin",
    "tests.incidents.plugin",
]
IN_CI = os.environ.get("CI", "").lower() == "true"


@pytest.fixture(scope="session", autouse=True)
def node_locks() -> Iterator[Path]:
    """Lock files of this process's acts: the nodes of many tests are one machine under one name, and they run side by side."""
    folder = Path(tempfile.mkdtemp(prefix="node-locks-"))
    folder.chmod(0o1777)  # each user's in a folder of its own
    os.environ["GPU_RUNBOOKS_LOCKS"] = str(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes make no name of a test: what `gzip` packs holds the second at which it packed, so two processes would differ."""
    return argname if isinstance(val, bytes) and not val.isascii() else None


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
    """What `make prove` and `make long` run, and `make test` leaves to them."""
    if item.nodeid.startswith(PROVED):
        item.add_marker("prove")
    if item.nodeid.startswith(LONG):
        item.add_marker("long")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that nothing long is left for the end."""
    items.sort(key=lambda item: rank(item.nodeid))
