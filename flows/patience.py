"""How long a run waits for an absent server: each question its own while it is at work, and one patience for its whole end."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_ENDING: ContextVar[list[float] | None] = ContextVar("ending", default=None)
"""Set while a run ends; holds the moment at which the server fell silent."""


def last_words() -> None:
    """From here on this run only ends: a server that is gone for good is waited for once, not once for each question."""
    if _ENDING.get() is None:
        _ENDING.set([])


@contextmanager
def one_run() -> Iterator[None]:
    """A run in this process: how it ends is its own."""
    token = _ENDING.set(None)
    try:
        yield
    finally:
        _ENDING.reset(token)


def until(deadline: float, patience_s: float) -> float:
    """When to give up a question that was not answered: at its own deadline, or `patience_s` after the silence began in which the
    run ends."""
    shared = _ENDING.get()
    if shared is None:
        return deadline
    if not shared:
        shared.append(deadline - patience_s)
    return min(deadline, shared[0] + patience_s)


def answered(answer: T) -> T:
    """The answer, handed on. The server is there: the next silence is another one."""
    if shared := _ENDING.get():
        shared.clear()
    return answer
