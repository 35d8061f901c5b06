"""Waiting for a server that may not answer yet."""

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
