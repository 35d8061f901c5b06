"""Where a run's log goes when the worker that reads it is gone: nowhere, and the run goes on.

Rich ends the program when a pipe breaks (`SystemExit(1)`), in the middle of an action if need be.
"""

import logging
import os
from functools import partial

from rich.console import Console


def outlive_the_pipe() -> None:
    """Makes every console that a log of this process writes to go quiet, not exit, when its pipe breaks."""
    loggers = [logging.root, *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))]
    for handler in {h for logger in loggers for h in logger.handlers}:
        console = getattr(handler, "console", None)
        if isinstance(console, Console):
            console.on_broken_pipe = partial(_go_quiet, console)  # type: ignore[method-assign]


def _go_quiet(console: Console) -> None:
    console.quiet = True
    console.file = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the rest of the process
