"""Tries systems side by side, each for a bounded time: one that hangs holds up neither the others nor who asks."""

from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from threading import Thread
from time import monotonic
from typing import NamedTuple

from runbooks.core.nightly import CheckState, SystemCheck
from runbooks.core.reading import UnknownReason
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError

BOUND_S = 45.0  # for all of them together; each client has shorter time-outs of its own
SILENT = (UnknownReason.UNREACHABLE, UnknownReason.TIMED_OUT)
Checks = tuple[SystemCheck, ...]
Later = Callable[[], Checks]
"""Waits for what is left of the bound, then gives what each said, in their order. Never raises."""


class Try(NamedTuple):
    """One system, and how it is asked: `ask` may raise whatever its client raises."""

    name: str
    url: str
    ask: Callable[[], Iterable[SystemCheck]]
    fix: str  # where nothing says it better


def check_of(name: str, state: str, says: str, fix: str = "", *, silent: bool = False) -> SystemCheck:
    """One line of the answer. `silent`: there was none."""
    return SystemCheck(name=name, state=CheckState(state), detail=says, fix=fix, reachable=not silent)


def begin_all(tries: Sequence[Try], bound_s: float = BOUND_S) -> Later:
    """Begins them all, so that the caller can do something else meanwhile."""
    until = monotonic() + bound_s
    begun = [(one, *_started(one)) for one in tries]
    return lambda: tuple(check for one, said, thread in begun for check in _ended(one, said, thread, until, bound_s))


def not_tried(tries: Sequence[Try], why: str, first: str) -> Checks:
    """The same where there is no way to ask. `first`: what is to be put right before."""
    return tuple(_whole(t, check_of(t.name, "FAULT", f"not tried: {why}", first, silent=True), 0.0) for t in tries)


def _started(one: Try) -> tuple[list[SystemCheck], Thread]:
    """What it says from now on, and the thread that asks: a process that ends does not wait for it."""
    said: list[SystemCheck] = []
    thread = Thread(target=copy_context().run, args=(_asks, one, said), daemon=True, name=f"try {one.name}")
    thread.start()
    return said, thread


def _ended(one: Try, said: list[SystemCheck], thread: Thread, until: float, bound_s: float) -> Checks:
    """What it said in time, and that more was to come where it was not over."""
    thread.join(max(0.0, until - monotonic()))
    if not thread.is_alive():
        return tuple(said)
    return (*said, _whole(one, check_of(one.name, "FAULT", f"no answer within {bound_s:g} s", one.fix, silent=True), bound_s))


def _asks(one: Try, said: list[SystemCheck]) -> None:
    began = monotonic()
    try:
        for check in one.ask():
            said.append(_whole(one, check, monotonic() - began))
    except BaseException as e:  # a client of a kind of its own; what it says is the answer, and nobody is above it to end
        said.append(_whole(one, _broken(one, e), monotonic() - began))


def _broken(one: Try, error: BaseException) -> SystemCheck:
    if isinstance(error, TransportError):
        return check_of(one.name, "FAULT", error.why, one.fix, silent=error.reason in SILENT)
    return check_of(one.name, "FAULT", f"{type(error).__name__}: {error}"[:300], one.fix, silent=isinstance(error, OSError))


def _whole(one: Try, check: SystemCheck, seconds: float) -> SystemCheck:
    """With its address and how long it took, and without secrets: nothing else makes a line of the answer."""
    clean = installation_redactor().text
    fields = {"url": clean(check.url or one.url), "detail": clean(check.detail), "fix": clean(check.fix)}
    return check.model_copy(update=fields | {"seconds": round(seconds, 3)})
