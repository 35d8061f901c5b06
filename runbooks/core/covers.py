"""What a verdict covers: the readings that it rests on, and the options that a run was given and that decided nothing. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from runbooks.core.headline import headlined
from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.reading_words import label
from runbooks.core.verdict import Diagnosis, State


def covering(evidence: BaseModel, found: Diagnosis) -> Diagnosis:
    """The judgment; a healthy one says in one line what was read, and what is not there to be read."""
    if found.state is not State.HEALTHY:
        return found
    read, absent = [], []
    for name in type(evidence).model_fields:
        value, called = getattr(evidence, name), label(type(evidence), name)
        if isinstance(value, Absent):
            absent.append(f"{called} ({value.proof})")
        elif isinstance(value, Known):
            read.append(called)
        elif parts := [p for item in _items(value) for p in _readings(item)]:
            read.append(f"{called} ({sum(isinstance(p, Known) for p in parts)} of {len(parts)})")
    words = f"read: {', '.join(read)}" + (f". Not there: {'; '.join(absent)}" if absent else "")
    return found.model_copy(update={"covers": words})


def _items(value: Any) -> Sequence[Any]:
    """What a field with several parts holds: those of a list, or of a table by name."""
    return value if isinstance(value, tuple) else tuple(value.values()) if isinstance(value, Mapping) else ()


def _readings(item: Any) -> Iterator[Any]:
    """The readings of one item of a list: itself, or its fields."""
    if isinstance(item, Known | Absent | Unknown):
        yield item
    elif isinstance(item, BaseModel):
        yield from (v for name in type(item).model_fields if isinstance(v := getattr(item, name), Known | Absent | Unknown))


def with_unused(found: Diagnosis, names: Sequence[str]) -> Diagnosis:
    """The judgment; options that were given and decided nothing are named, and what was asked for with them is not called healthy."""
    if not names:
        return found
    said = tuple(f"option {name} was given but not used: nothing was read for it" for name in names)
    told = found.model_copy(update={"unknowns": (*said, *found.unknowns)})
    if found.state is not State.HEALTHY:
        return told
    return headlined(told.model_copy(update={"state": State.CANNOT_TELL}), f"cannot tell: {said[0]}; else: {found.headline}")
