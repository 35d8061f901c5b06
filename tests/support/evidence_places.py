"""Places inside an evidence: what stands at one, and a copy of the evidence with something else there."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Place = tuple[str | int, ...]


def value_at(value: Any, place: Place) -> Any:
    """What stands at that place."""
    for key in place:
        value = getattr(value, str(key)) if isinstance(value, BaseModel) else value[key]
    return value


def replaced(value: Any, place: Place, new: Any) -> Any:
    """A copy with something else at that place."""
    if not place:
        return new
    key, rest = place[0], place[1:]
    if isinstance(value, tuple):
        return tuple(replaced(x, rest, new) if i == key else x for i, x in enumerate(value))
    if isinstance(value, Mapping):
        return {k: replaced(x, rest, new) if k == key else x for k, x in value.items()}
    return value.model_copy(update={str(key): replaced(getattr(value, str(key)), rest, new)})
