"""Keeps out of a run's log what stands there already: by us, or by Prefect."""

import logging
import sys

from prefect.exceptions import CancelledRun, CrashedRun, FailedRun

AGAIN = "Engine execution exited with unexpected exception"
"""What Prefect writes, with a traceback, when a worker's run ended by a failed state, however that came about. The state is
logged just before, and where an exception led to it, that is."""
OUR_ENDS = (FailedRun, CrashedRun, CancelledRun)
DONE = "Finished in state Completed()"
"""What Prefect writes of each task, without its name. The engine's own line says what was read."""


def say_once() -> None:
    """From here on this process leaves such lines away."""
    logging.getLogger("prefect.flow_runs").addFilter(_is_news)
    logging.getLogger("prefect.task_runs").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    if record.name == "prefect.task_runs":
        return record.getMessage() != DONE
    return not (record.msg == AGAIN and isinstance(sys.exc_info()[1], OUR_ENDS))
