"""A flow that fails says so in one line at the terminal; its log in the UI keeps the traceback."""

import logging
import sys

import prefect.main  # noqa: F401 - makes the handlers
import pytest

from deployments.cli.console import NoTraceback, brief


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.task_runs", "prefect.engine"])
def test_one_line(name: str) -> None:
    brief()
    brief()  # once is enough
    logger: logging.Logger | None = logging.getLogger(name)
    found = []
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    consoles = [h for h in found if isinstance(h.formatter, NoTraceback)]
    assert consoles
    try:
        raise ValueError("why")
    except ValueError:
        named = {"flow_run_name": "a run", "task_run_name": "a task"}
        why = sys.exc_info()
        record = logging.getLogger(name).makeRecord(name, logging.ERROR, "f", 1, "Encountered exception", (), why, extra=named)
    for handler in consoles:
        text = handler.format(record)
        assert "Encountered exception" in text
        assert "Traceback" not in text
    assert record.exc_info or record.exc_text  # the text alone, where this process keeps its log clean
    assert "Traceback" in logging.Formatter().format(record)
