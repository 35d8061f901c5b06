"""One call as a task run of Prefect. Prefect gets its name, how it ended and what it says; the values stay with the caller."""

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from runbooks.core.clean import one_line
from runbooks.core.error_text import error_text
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from tasks.clean_log import clean_process
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError

if TYPE_CHECKING:
    from prefect import Task
    from prefect.client.schemas.objects import State

T = TypeVar("T")
log = logging.getLogger("tasks.reading")
log.setLevel(logging.INFO)  # these lines are meant for the run's log in the UI
LONGEST = 400  # characters of a state's message and of a line of the log
DEEP = 3  # levels of a result in which its readings are looked for
UNKNOWN = "CRASHED"  # type of its state in Prefect: orange there, neither green nor the red of an error
NOT_A_FAULT = (UnknownReason.NOT_ASKED, UnknownReason.NOT_RECORDED)


class _Call(Generic[T]):
    """What the task is given, unopened: Prefect walks through every model that it is handed."""

    __slots__ = ("error", "fn", "value")

    def __init__(self, fn: Callable[[], T]) -> None:
        self.fn = fn
        self.error: Exception | None = None
        self.value: T

    def made(self) -> "State[Any]":
        """How the call ended. Its exception is kept for the caller: Prefect would store its text."""
        try:
            self.value = self.fn()
        except Exception as e:
            self.error = e
            return _failed(e)
        return _ended(self.value)


def as_task_run(name: str, tag: str, fn: Callable[[], T]) -> T:
    """Calls `fn` as a task run of the current flow run. Returns and raises what it does."""
    call, name = _Call(fn), _clean(name)
    _task().with_options(task_run_name=lambda: name, tags=[tag])(call, return_state=True)
    if call.error is not None:
        raise call.error
    return call.value


@functools.cache
def _task() -> "Task[[Any], Any]":
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    clean_process()

    @task(cache_policy=NO_CACHE, retries=0, persist_result=False)
    def reading(call: _Call[Any]) -> "State[Any]":
        return call.made()

    logging.getLogger("prefect.task_runs").addFilter(_is_news)
    return reading


def _is_news(record: logging.LogRecord) -> bool:
    """Prefect writes how each task ended, and an error for each that is not completed: our own line says what was read."""
    return not (getattr(record, "task_name", "") == "reading" and str(record.msg).startswith("Finished in state"))


def _ended(value: Any) -> "State[Any]":
    from prefect.client.schemas.objects import State, StateType

    found = list(_readings(value))
    lost = [(name, r) for name, r in found if isinstance(r, Unknown) and r.reason not in NOT_A_FAULT]
    if lost:
        state = State(type=StateType(UNKNOWN), name=f"Unknown: {lost[0][1].reason.words}")
        return _said(state, "; ".join(f"{name}: {r.why}" if name else r.why for name, r in lost))
    absent = [r.proof for _, r in found if isinstance(r, Absent)]
    if absent and len(absent) == len(found):
        return _said(State(type=StateType.COMPLETED, name="Absent"), "; ".join(dict.fromkeys(absent)))
    commands = dict.fromkeys(r.source.command for _, r in found if r.source is not None)
    return _said(State(type=StateType.COMPLETED, name="Read"), "; ".join(commands))


def _failed(error: Exception) -> "State[Any]":
    from prefect.client.schemas.objects import State, StateType

    if isinstance(error, TransportError):
        return _said(State(type=StateType(UNKNOWN), name=f"Unknown: {error.reason.words}"), error.detail)
    return _said(State(type=StateType.FAILED, name="Failed"), error_text(error))


def _said(state: "State[Any]", text: str) -> "State[Any]":
    state.message = _clean(text)
    log.info("%s: %s", state.name, state.message)
    return state


def _clean(text: str) -> str:
    return one_line(installation_redactor().text(text))[:LONGEST]


def _readings(value: Any, name: str = "", deep: int = DEEP) -> Iterator[tuple[str, Known[Any] | Absent | Unknown]]:
    """Each reading in a result, by the name of its field ("" for the result itself)."""
    if isinstance(value, Known | Absent | Unknown):
        yield name, value
    elif deep and isinstance(value, BaseModel):
        for field in type(value).model_fields:
            yield from _readings(getattr(value, field), field, deep - 1)
    elif deep and is_dataclass(value):
        for one in fields(value):
            yield from _readings(getattr(value, one.name), one.name, deep - 1)
    elif deep and isinstance(value, tuple):
        names = getattr(value, "_fields", [name] * len(value))
        for field, part in zip(names, value, strict=True):
            yield from _readings(part, field, deep - 1)
