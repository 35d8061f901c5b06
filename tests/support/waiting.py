"""Waiting for what has not happened yet, and for a server that may not answer yet."""

import time
from collections.abc import Callable
from typing import Any

import httpx


def until_answered(what: Callable[[], Any], limit_s: float, more: Callable[[], str] = str) -> Any:
    """What `what()` says once that is true; a server that is not there yet is asked again. AssertionError with `more()`."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if found := what():
                return found
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, more()
        time.sleep(0.3)


def until(true: Callable[[], bool], seconds: float = 60, what: str = "it") -> None:
    """Wait until `true()`."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        time.sleep(0.02)
