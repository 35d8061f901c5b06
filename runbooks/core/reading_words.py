"""The words by which people are told of a reading: "process table of GPU 0", in place of the path of its field. Pure.

A field is called by its title, else by its name; an item of a list by the title of its type, and by its own name.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from runbooks.core.reading import Absent, Known, Unknown

NAMES = ("path", "node", "worker", "tier", "index", "name", "id")  # what tells one item of a list from the next


class WayStep(NamedTuple):
    """One step of the way from the evidence down to a reading."""

    text: str
    item: bool = False  # of a list
    read: bool = False  # a reading itself, in which others stand


def label(kind: type[BaseModel], field: str) -> str:
    """What people call a field: its title, else its name."""
    return kind.model_fields[field].title or field.replace("_", " ")


def spoken(way: Iterable[WayStep]) -> str:
    """The way, the innermost first. An item names the list that it stands in, and what was read of it."""
    kept: list[WayStep] = []
    for word in way:
        if word.item:
            kept = [w for w in kept if w.item]
        elif kept and kept[-1].read and any(w.item for w in kept):
            kept.pop()
        kept.append(word)
    return " of ".join(word.text for word in reversed(kept))


def own_name(item: Any) -> str:
    """What an item calls itself; "" if it does not."""
    thing = item.value if isinstance(item, Known) else item
    return next((str(v) for n in NAMES if isinstance(v := getattr(thing, n, None), str | int) and v != ""), "")


@cache
def noun(kind: type[BaseModel], field: str) -> str:
    """What people call one item of that field: the title of its type, else the field's own word."""
    inner = model_in(kind.model_fields[field].annotation)
    return (inner and inner.model_config.get("title")) or label(kind, field)


@cache
def words_of(kind: type[BaseModel], path: str) -> str:
    """The same for a path as runbook.yaml gives it: "gpus.gpus[].processes" is "process table of each GPU"; "a or b" is both."""
    return " or ".join(spoken(_way(kind, one.split("."))) for one in path.split(" or "))


def _way(kind: type[BaseModel] | None, steps: Sequence[str]) -> Iterable[WayStep]:
    for step in steps:
        field, bracket, _ = step.partition("[")
        if kind is None or field not in kind.model_fields:
            yield WayStep(field.replace("_", " "))
            continue
        annotation = kind.model_fields[field].annotation
        yield WayStep(label(kind, field), read=_is_reading(annotation))
        if bracket:
            yield WayStep(f"each {noun(kind, field)}", item=True)
        kind = model_in(annotation)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The type of what an annotation holds, inside readings, lists and tables too; None where it is plain."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if issubclass(annotation, Absent | Unknown):
            return None
        return model_in(annotation.model_fields["value"].annotation) if issubclass(annotation, Known) else annotation
    return next((found for a in get_args(annotation) if (found := model_in(a))), None)


def _is_reading(annotation: Any) -> bool:
    return annotation is Unknown or any(_is_reading(a) for a in get_args(annotation) if not _is_list(annotation))


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (tuple, dict)
