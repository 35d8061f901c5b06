"""The words for a run that a signal ended before its end. Without Prefect: reports made without a server say the same."""

from threading import Event

HUNG_UP = Event()
"""This process was told that its terminal is gone; it does not get it back. Set by whoever handles SIGHUP."""
BY_CTRL_C, BY_SIGTERM, BY_SIGHUP = "interrupted by a person (Ctrl-C)", "told to end (SIGTERM)", "its terminal was closed (SIGHUP)"


def by_sigterm() -> str:
    """What SIGTERM stands for in this process: a closed terminal is handed on as one."""
    return BY_SIGHUP if HUNG_UP.is_set() else BY_SIGTERM


def failed_because(said: str) -> str:
    """The headline of a run that did not come to its end, by an error or by a signal."""
    return f"the run was ended early: {said}" if said in (BY_CTRL_C, BY_SIGTERM, BY_SIGHUP) else f"the run itself failed: {said}"
