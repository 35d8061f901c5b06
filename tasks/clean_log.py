"""Replaces secrets in everything that this process says by itself: log records, tracebacks of what nobody caught."""

import logging
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from runbooks.core.error_text import error_text
from tasks.installation import installation_redactor

_MOST_CAUSES = 10


def clean_process() -> None:
    """From here on every record is cleaned where it is made, before any handler (file, console, Prefect's API) has it."""
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _CleanRecords):
        logging.setLogRecordFactory(_CleanRecords(factory))
        sys.excepthook = _say
        threading.excepthook = _say_of_thread


def clean_traceback(error: BaseException) -> str:
    """The traceback with its causes, as Python prints it, without secrets and without the input of pydantic's errors."""
    parts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(parts) < _MOST_CAUSES:
        frames = "".join(traceback.format_tb(seen.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{error_text(seen)}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return installation_redactor().text("\n\nThis came after:\n\n".join(reversed(parts)))


class _CleanRecords:
    """Makes log records as the factory before it does, then cleans them."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, *args: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._before(*args, **more)
        _clean_message(record)
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text, record.exc_info = clean_traceback(record.exc_info[1]), None
        return record


def _clean_message(record: logging.LogRecord) -> None:
    """Cleans the arguments alone where that is enough: some formatters read them."""
    clean = installation_redactor().text
    try:
        said = record.getMessage()
    except Exception:
        return  # logging reports such a record itself, by its arguments' types
    if clean(said) == said:
        return
    if isinstance(record.args, tuple):
        record.args = tuple(clean(a) if isinstance(a, str) else a for a in record.args)
        if clean(record.getMessage()) == record.getMessage():
            return
    record.msg, record.args = clean(said), ()


def _say(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        return sys.__excepthook__(_kind, error, _trace)
    sys.stderr.write(clean_traceback(error) + "\n")
    return None


def _say_of_thread(about: threading.ExceptHookArgs) -> None:
    if about.exc_value is not None and not isinstance(about.exc_value, SystemExit):
        name = about.thread.name if about.thread else "?"
        sys.stderr.write(f"Exception in thread {name}:\n{clean_traceback(about.exc_value)}\n")
