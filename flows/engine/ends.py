"""How a task or flow of ours may end: with its result, or with an exception that holds no secret.

Prefect stores an exception's text as the run's state, in its events and in its log, from every @task and @flow.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from prefect.exceptions import ExternalSignal, PrefectSignal, TerminationSignal

from flows.engine.interrupted import BY_CTRL_C, by_sigterm
from flows.engine.log_once import say_once
from runbooks.core.error_text import error_text
from tasks.clean_log import clean_process
from tasks.fault_file import fault_of
from tasks.installation import installation_redactor

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("flows.ends")
SIGNALS = (PrefectSignal, ExternalSignal, asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What Prefect and Python end code by. Prefect writes words of its own for them."""


class RunFailed(Exception):
    """A task or run ended by an error of its own; the message has no secrets. `fault`: what is said of it if it is ours."""

    def __init__(self, words: str, fault: str = "") -> None:
        super().__init__(words)
        self.fault = fault


def clean_end(fn: Callable[P, T]) -> Callable[P, T]:
    """Every function of ours that Prefect runs is wrapped in this, inside @task and @flow.

    What is raised instead hangs on nothing: no cause, no context, no frame that still holds the value.
    """

    @functools.wraps(fn)
    def ended(*args: P.args, **kwargs: P.kwargs) -> T:
        clean_process()
        say_once()
        try:
            return fn(*args, **kwargs)
        except RunFailed as e:
            e.__cause__ = e.__context__ = None
            raise
        except SIGNALS:
            raise
        except BaseException as e:
            failure = failure_of(e)
        raise failure

    return ended


def failure_of(error: BaseException) -> RunFailed:
    """What is raised in its place, outside of any `except`. The error itself goes to the log, and a fault of ours to a file as well."""
    if isinstance(error, RunFailed):
        return error
    words = in_words(error)
    clean_process()  # the record's traceback is cleaned where it is made; a terminal shows its line alone
    log.error("%s", words, exc_info=error)
    return RunFailed(words, fault_of(error))


def fault_in(error: BaseException) -> str:
    """What is said of it if it is a fault of ours, with the file that has its traceback; else ""."""
    return error.fault if isinstance(error, RunFailed) else fault_of(error)


def in_words(error: BaseException) -> str:
    """What an exception says, without secrets; of a signal, who ended the process."""
    if isinstance(error, KeyboardInterrupt):
        return BY_CTRL_C
    if isinstance(error, TerminationSignal):
        return by_sigterm()
    return str(error) if isinstance(error, RunFailed) else installation_redactor().text(error_text(error))
