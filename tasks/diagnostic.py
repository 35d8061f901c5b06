"""A reader as a Prefect task: in a flow run each call is a task run that a person can follow in the UI; elsewhere it is a plain call."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from uuid import UUID

    from tasks.task_run import End

P = ParamSpec("P")
T = TypeVar("T")
LOOK: ContextVar[str] = ContextVar("look of a run", default="")
"""Which look of a run a reading belongs to: a tag of its task run."""
IN_DETAIL: ContextVar["UUID | None"] = ContextVar("task run whose readings are task runs as well", default=None)
LISTENERS: list[Callable[[str], None]] = []
"""Called with the name of each reading, decision and step as it begins, in the thread that does it."""


def diagnostic(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a function that reads and changes nothing. `name`: what a person calls the reading, with the call's arguments
    filled in, as in "kernel log · {context.target}".

    Its call is a task run where it is made by a flow itself, and by a task `in_detail`. Inside another task (a node of the nightly,
    another reading) and outside a flow run it is called as it is, and Prefect is not imported. It returns and raises the same in
    each case."""

    def of(fn: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def read(*args: P.args, **kwargs: P.kwargs) -> T:
            in_flow = _called_by_a_flow()
            if not LISTENERS and not in_flow:
                return fn(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            return _shown(name.format(**given.arguments), "diagnostic", lambda: fn(*args, **kwargs), None, in_flow)

        return read

    return of


def shown(name: str, tag: str, fn: Callable[[], T], end: "Callable[[T], End] | None" = None) -> T:
    """Calls `fn`, as a task run where a flow itself asks for it. `end`: what its state says; without it, the readings in its result.

    Returns and raises what `fn` does. What goes wrong with showing it is logged, and changes nothing."""
    return _shown(name, tag, fn, end, _called_by_a_flow())


def _shown(name: str, tag: str, fn: Callable[[], T], end: "Callable[[T], End] | None", in_flow: bool) -> T:
    for listener in tuple(LISTENERS):
        listener(name)
    if not in_flow:
        return fn()
    from tasks.task_run import as_task_run

    return as_task_run(name, [t for t in (tag, LOOK.get()) if t], fn, end)


@contextmanager
def looking(look: str) -> Iterator[None]:
    """Meanwhile what is read belongs to that look."""
    before = LOOK.set(look)
    try:
        yield
    finally:
        LOOK.reset(before)


@contextmanager
def in_detail(look: str, wanted: bool = True) -> Iterator[None]:
    """Meanwhile each reading of the current task is a task run of its own, with that tag, if that is wanted."""
    from prefect.context import TaskRunContext

    here = TaskRunContext.get() if wanted else None
    before = IN_DETAIL.set(here.task_run.id if here else None)
    try:
        with looking(look):
            yield
    finally:
        IN_DETAIL.reset(before)


def _called_by_a_flow() -> bool:
    """True in the code of a flow run, not of a task: an action's flow stands in a task of its runbook's run. True as well in a
    task whose readings are shown."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    flow, task = FlowRunContext.get(), TaskRunContext.get()
    if flow is None or flow.flow_run is None:
        return False
    return task is None or task.task_run.flow_run_id != flow.flow_run.id or task.task_run.id == IN_DETAIL.get()


class ReaderPool(ThreadPoolExecutor):
    """Threads that read side by side: what they read belongs to the flow run of the thread that asks."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As Executor.submit, with the context variables of the caller; `map` goes this way as well."""
        return super().submit(copy_context().run, fn, *args, **kwargs)
