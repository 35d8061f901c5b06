"""One call as a task run of Prefect. Prefect gets its name, how it ended and what it says; the values stay with the caller."""

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from runbooks.core.clean import one_line
from runbooks.core.error_text import error_text
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from tasks.clean_log import clean_process
from tasks.context import ActionRefused
from tasks.installation import installation_redactor
from tasks.transport.base import TransportError

T = TypeVar("T")
log = logging.getLogger("tasks.reading")
log.setLevel(logging.INFO)  # these lines are meant for the run's log in the UI
LONGEST = 400  # characters of a state's message and of a line of the log
DEEP = 3  # levels of a result in which its readings are looked for
UNKNOWN = "CRASHED"  # type of its state in Prefect: orange there, neither green nor the red of an error
NOT_A_FAULT = (UnknownReason.NOT_ASKED, UnknownReason.NOT_RECORDED)


class End(NamedTuple):
    """What the state of a task run says."""

    kind: str  # Prefect's type of state, by which the UI colours it
    name: str
    said: str


class _Call(Generic[T]):
    """What the task is given, unopened: Prefect walks through every model that it is handed."""

    __slots__ = ("begun", "end", "error", "fn", "tags", "value")

    def __init__(self, fn: Callable[[], T], end: Callable[[T], End], tags: list[str]) -> None:
        self.fn, self.end, self.tags = fn, end, tags
        self.begun = False
        self.error: Exception | None = None
        self.value: T

    def made(self) -> End:
        """How the call ended. Its exception is kept for the caller: Prefect would store its text."""
        self.begun = True
        try:
            self.value = self.fn()
        except Exception as e:
            self.error = e
            return _failed(e)
        return self.end(self.value)


def as_task_run(name: str, tags: list[str], fn: Callable[[], T], end: Callable[[T], End] | None = None) -> T:
    """Calls `fn` once, as a task run of the current flow run: see tasks/diagnostic.py, `shown`."""
    call, name = _Call(fn, end or _of_readings, tags), _clean(name)
    try:
        _task().with_options(task_run_name=lambda: name)(call, return_state=True)
    except Exception as e:  # of Prefect: those of the call are kept
        log.warning("%s is not shown as a task run: %s", name, _clean(error_text(e)))
    if not call.begun:
        call.made()
    if call.error is not None:
        raise call.error
    return call.value


@functools.cache
def _task() -> Any:
    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from prefect.context import TaskRunContext

    clean_process()

    @task(cache_policy=NO_CACHE, retries=0, persist_result=False)
    def shown(call: _Call[Any]) -> Any:
        if (here := TaskRunContext.get()) is not None:  # for a task with tags Prefect first asks the server for their limits
            here.task_run.tags = call.tags
        return _state(call.made())

    logging.getLogger("prefect.task_runs").addFilter(_is_news)
    return shown


def _is_news(record: logging.LogRecord) -> bool:
    """Prefect writes how each task ended, and an error for each that is not completed: our own line says it."""
    return not (getattr(record, "task_name", "") == "shown" and str(record.msg).startswith("Finished in state"))


def _state(end: End) -> Any:
    from prefect.client.schemas.objects import State, StateType

    said = _clean(end.said)
    log.info("%s: %s" if said else "%s%s", end.name, said)
    return State(type=StateType(end.kind), name=end.name, message=said)


def _of_readings(value: Any) -> End:
    found = list(_readings(value))
    lost = [(name, r) for name, r in found if isinstance(r, Unknown) and r.reason not in NOT_A_FAULT]
    if lost:
        first = lost[0][1].reason
        said = ((name, r.detail if r.reason is first and r.detail else r.why) for name, r in lost)
        return End(UNKNOWN, f"Unknown: {first.words}", "; ".join(f"{name}: {why}" if name else why for name, why in said))
    absent = [r.proof for _, r in found if isinstance(r, Absent)]
    if absent and len(absent) == len(found):
        return End("COMPLETED", "Absent", "; ".join(dict.fromkeys(absent)))
    return End("COMPLETED", "Read", "; ".join(dict.fromkeys(r.source.command for _, r in found if r.source is not None)))


def _failed(error: Exception) -> End:
    if isinstance(error, TransportError):
        return End(UNKNOWN, f"Unknown: {error.reason.words}", error.detail)
    if isinstance(error, ActionRefused):
        return End("FAILED", f"Refused: {error.code}", str(error))
    return End("FAILED", "Failed", error_text(error))


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
