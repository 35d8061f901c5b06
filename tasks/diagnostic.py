"""A reader as a Prefect task: inside a flow run each call is a task run that a person can follow in the UI; elsewhere it is a plain call."""

import functools
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def diagnostic(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a function that reads and changes nothing. `name`: what a person calls the reading, with the call's arguments
    filled in, as in "kernel log · {context.target}".

    Its call is a task run where it is made by a flow itself. Inside another task (a node of the nightly, another reading) and
    outside a flow run it is called as it is, and Prefect is not imported. It returns and raises the same in each case."""

    def of(fn: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def read(*args: P.args, **kwargs: P.kwargs) -> T:
            if not _called_by_a_flow():
                return fn(*args, **kwargs)
            from tasks.task_run import as_task_run

            given = signature.bind(*args, **kwargs).arguments
            return as_task_run(name.format(**given), "diagnostic", lambda: fn(*args, **kwargs))

        return read

    return of


def _called_by_a_flow() -> bool:
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return FlowRunContext.get() is not None and TaskRunContext.get() is None


class ReaderPool(ThreadPoolExecutor):
    """Threads that read side by side: what they read belongs to the flow run of the thread that asks."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As Executor.submit, with the context variables of the caller; `map` goes this way as well."""
        return super().submit(copy_context().run, fn, *args, **kwargs)
