"""Pytest hook: notes each incident test with what its mark says and whether it held, for `python -m tests.incidents`.

With `--collect-only` it notes what the marks say, as if every test held.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

NOTES = "INCIDENT_NOTES"  # environment: the folder of the notes
CAME = ("right", "open", "blind", "wrong", "harmful")
FED = ("readers", "evidence")
MORE = {"twin", "source", "runbook", "said", "round", "outside", "first_outside"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mark that does not say what it must is an error of the test."""
    for item in items:
        if mark := item.get_closest_marker("incident"):
            fields = dict(mark.kwargs)
            whole = len(mark.args) == 1 and fields.pop("came", "") in CAME and fields.pop("fed", "") in FED
            whole = whole and fields.pop("first", CAME[0]) in CAME
            if not whole or fields.pop("known", None) not in (True, False) or set(fields) - MORE:
                raise pytest.UsageError(f"{item.nodeid}: incident(ID, came=, fed=, known=, twin=, first=): see tests/incidents/__init__.py")


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("collectonly"):
        for item in session.items:
            _note(item, held=True)


def _note(item: pytest.Item, held: bool) -> None:
    mark, folder = item.get_closest_marker("incident"), os.environ.get(NOTES)
    if mark and folder:
        line = {"id": mark.args[0], **mark.kwargs, "held": held, "test": item.nodeid}
        with (Path(folder) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """One line per test that ran, or that could not be set up."""
    report = yield
    if report.when == "call" or (report.when == "setup" and not report.passed):
        _note(item, report.passed)
    return report
