"""What Prefect logs to the terminal of a command: one line a record. The traceback stays in the run's log, where the UI shows it."""

import logging


class NoTraceback(logging.Formatter):
    """Another formatter's text, without the traceback; the record keeps it for other handlers."""

    def __init__(self, whole: logging.Formatter) -> None:
        super().__init__()
        self.whole = whole

    def format(self, record: logging.LogRecord) -> str:
        """The record in one line."""
        kept = record.exc_info, record.exc_text, record.stack_info
        record.exc_info = record.exc_text = record.stack_info = None
        try:
            return self.whole.format(record)
        finally:
            record.exc_info, record.exc_text, record.stack_info = kept


def brief() -> None:
    """From here on. Called when Prefect's library is loaded, which makes its handlers."""
    known = [x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger)]
    for handler in {h for logger in (logging.root, *known) for h in logger.handlers}:
        if type(handler).__name__ == "PrefectConsoleHandler" and not isinstance(handler.formatter, NoTraceback):
            handler.setFormatter(NoTraceback(handler.formatter or logging.Formatter()))
