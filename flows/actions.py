"""The table of everything that can be changed: action kind, how much it can hurt, and the function that does it."""

from collections.abc import Callable
from dataclasses import dataclass

from runbooks.core.plan import Risk, Step
from tasks.context import ActResult, Context


@dataclass(frozen=True)
class Action:
    """One kind of change."""

    risk: Risk
    act: Callable[[Step, Context], ActResult]


ACTIONS: dict[str, Action] = {}


def risks() -> dict[str, Risk]:
    """Risk of every kind this engine can do."""
    return {kind: action.risk for kind, action in ACTIONS.items()}
