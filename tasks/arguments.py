"""What acts, waits or counts for a step gets the step's arguments as the model of its kind."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from pydantic import ValidationError

from runbooks.core.args.base import Args
from runbooks.core.args.table import in_words
from runbooks.core.plan import Step
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context

A = TypeVar("A", bound=Args)
R = TypeVar("R")


def arguments(step: Step, model: type[A]) -> A:
    """The step's arguments. Raises ActionRefused (bad-arguments): they may be another version's, or altered."""
    try:
        return step.typed(model)
    except ValidationError as e:
        raise ActionRefused(RefusalCode.BAD_ARGUMENTS, f"{step.kind}: {in_words(e)}") from None


def takes(model: type[A]) -> Callable[[Callable[[A, Context], R]], Callable[[Step, Context], R]]:
    """Gives a function the arguments of the step that it is called with."""

    def wrap(do: Callable[[A, Context], R]) -> Callable[[Step, Context], R]:
        @wraps(do)
        def given(step: Step, context: Context) -> R:
            return do(arguments(step, model), context)

        return given

    return wrap
