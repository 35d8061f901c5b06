"""Tries systems side by side, each for a bounded time: one that hangs holds up neither the others nor who asks."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
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


class Try(NamedTuple):
    """One system, and how it is asked: `ask` may raise whatever its client raises."""

    name: str
    url: str
    ask: Callable[[], Iterable[SystemCheck]]
    fix: str  # where nothing says it better


def told(name: str, state: str, says: str, fix: str = "", *, silent: bool = False) -> SystemCheck:
    """One line of the answer. `silent`: there was none."""
    return SystemCheck(name=name, state=CheckState(state), detail=says, fix=fix, reachable=not silent)


def try_all(tries: Sequence[Try], bound_s: float = BOUND_S) -> Checks:
    """What each said, in their order. Never raises."""
    until = monotonic() + bound_s
    begun = [(one, _begun(one)) for one in tries]
    return tuple(check for one, answer in begun for check in _ended(one, answer, until, bound_s))


def not_tried(tries: Sequence[Try], why: str, first: str) -> Checks:
    """The same where there is no way to ask. `first`: what is to be put right before."""
    return tuple(told(t.name, "FAULT", f"not tried: {why}", first, silent=True).model_copy(update={"url": _clean(t.url)}) for t in tries)


def _begun(one: Try) -> "Future[Checks]":
    """A daemon's answer: a process that ends does not wait for it."""
    answer: Future[Checks] = Future()
    context = copy_context()
    Thread(target=lambda: answer.set_result(context.run(_answers, one)), daemon=True, name=f"try {one.name}").start()
    return answer


def _ended(one: Try, answer: "Future[Checks]", until: float, bound_s: float) -> Checks:
    try:
        return answer.result(max(0.0, until - monotonic()))
    except Late:
        late = told(one.name, "FAULT", f"no answer within {bound_s:g} s", one.fix, silent=True)
        return (late.model_copy(update={"url": _clean(one.url), "seconds": bound_s}),)


def _answers(one: Try) -> Checks:
    began = monotonic()
    try:
        found = tuple(one.ask())
    except TransportError as e:
        found = (told(one.name, "FAULT", f"{e.reason}: {e.detail}", one.fix, silent=e.reason in SILENT),)
    except Exception as e:  # a client of a kind of its own; what it says is the answer
        found = (told(one.name, "FAULT", f"{type(e).__name__}: {e}"[:300], one.fix, silent=isinstance(e, OSError)),)
    took, url = round(monotonic() - began, 3), _clean(one.url)
    return tuple(c.model_copy(update={"url": c.url or url, "seconds": took, "detail": _clean(c.detail)}) for c in found)


def _clean(text: str) -> str:
    return installation_redactor().text(text)
