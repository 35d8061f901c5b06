"""Fields that every version of a program gives and that a verdict rests on: a lost one is no answer, never a default."""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def given(x: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """The field `name`, which is a `kind`. Raises ValueError where it is missing, null or of another kind."""
    if type(value := x.get(name)) is not kind:
        raise ValueError(f"{name} is {value!r:.80}, expected {kind.__name__}")
    return value


def listed(x: Mapping[str, Any], name: str) -> list[Any]:
    """A list that some versions leave out or write as null where it is empty. Raises ValueError where it is anything else."""
    return given(x, name, list) if x.get(name) is not None else []
