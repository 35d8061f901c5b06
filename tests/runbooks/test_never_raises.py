"""A judge never raises: whatever optional field is absent, null or empty, and whatever a reader could put into its evidence."""

from __future__ import annotations

import os
import random
import traceback
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from tests.runbooks.every import Situation, situations

MANY = int(os.environ.get("NEVER_RAISES", "150"))  # made worlds a runbook, and changes of each known one
EVERY = pytest.param(None, id="every field", marks=[pytest.mark.soak, pytest.mark.timeout(7200)])
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXTS = ("", " ", "0", "-", "²", "x", "a", "node-a", "running", "RUNNING", "FAILED", "10.0.0.1:29500", "/data/ckpt", "12.5 MiB", "null",
         "\n", "Traceback (most recent call last):\nKeyError: 'betas'", "é\x00🙂")  # fmt: skip
NUMBERS = (0, 1, -1, 2, 7, 137, 255, 4096, 1 << 40)
LOST = (Unknown(reason=UnknownReason.DENIED, detail="x"), Unknown(reason=UnknownReason.NOT_RECORDED), Absent(proof="none"))


class Nothing(Exception):
    """No value of that type could be made."""


# --- every known world, changed in one place ---


def changes(value: Any, annotation: Any) -> Iterator[Any]:
    """Values that stand for "not there" at this place, as far as its type takes them."""
    if get_origin(annotation) is Literal:
        return  # what tells a reading from another is never absent
    options = [annotation, *get_args(annotation)] if get_origin(annotation) in (Union, types.UnionType, Annotated) else [annotation]
    names = " ".join(str(o) for o in options)
    if isinstance(value, Known | Unknown | Absent):
        yield from LOST
    if "None" in names:
        yield None
    for kind, empty in ((str, ""), (tuple, ()), (dict, {}), (bool, False), (int, 0), (float, 0.0)):
        if isinstance(value, kind) and value != empty:
            yield empty


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each way to make one thing below `value` absent, as (path, value in its place)."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            for new in changes(inner, field.annotation):
                yield (*path, name), new
            if not field.is_required() and inner != field.get_default(call_default_factory=True):
                yield (*path, name), field.get_default(call_default_factory=True)
            yield from places(inner, (*path, name))
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same with another thing at that place."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(value, BaseModel):
        return value.model_copy(update={first: put(getattr(value, first), rest, new)})
    if isinstance(value, tuple):
        return (*value[:first], put(value[first], rest, new), *value[first + 1 :])
    return {**value, first: put(value[first], rest, new)}


def raised(world: Situation, evidence: BaseModel) -> str:
    """Where the judge raised, "" if it did not. What the model itself refuses was never read."""
    try:
        evidence = type(evidence).model_validate(evidence.model_dump(warnings=False))
    except ValidationError:
        return ""
    try:
        world.judge(evidence)
    except Exception as e:  # every kind is what is looked for
        where = traceback.extract_tb(e.__traceback__)[-1]
        return f"{type(e).__name__}: {e} at {where.filename.rpartition('/runbooks/')[2]}:{where.lineno}"
    return ""


@pytest.mark.parametrize("most", [pytest.param(MANY * 12, id="a sample"), EVERY])
@pytest.mark.parametrize("runbook", runbook_slugs())
def test_one_thing_less(runbook: str, most: int | None) -> None:
    """A sample of the fields of each situation; in the soak each of them."""
    chosen, seen = random.Random(runbook), Counter[str]()
    worlds = [w for w in situations() if w.runbook == runbook]
    for world in worlds:
        found = list(places(world.evidence))
        for path, new in found if most is None else chosen.sample(found, min(len(found), max(12, most // max(1, len(worlds))))):
            said = raised(world, put(world.evidence, path, new))
            if said:
                seen[f"{said}\n    {world.title}: {'.'.join(map(str, path))} = {new!r}"] += 1
    assert not seen, f"{len(seen)} judgments raised:\n" + "\n".join(list(seen)[:12])


# --- worlds that nobody wrote, from the types alone ---


@cache
def pool(runbook: str) -> dict[type, list[BaseModel]]:
    """Whole parts of the known worlds, by their type: for types whose rules no random value keeps."""
    out: dict[type, list[BaseModel]] = {}
    for world in situations():
        if world.runbook == runbook:
            for part in _parts(world.evidence):
                out.setdefault(type(part), []).append(part)
    return out


def _parts(value: Any) -> Iterator[BaseModel]:
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from _parts(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _parts(item)


class Maker:
    """Makes values of a type."""

    def __init__(self, chosen: random.Random, known: dict[type, list[BaseModel]]) -> None:
        self.chosen, self.known = chosen, known

    def value(self, kind: Any, depth: int = 0) -> Any:
        origin, inside = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.value(inside[0], depth)
        if origin in (Union, types.UnionType):
            return self.value(self.chosen.choice(inside), depth)
        if origin is Literal:
            return self.chosen.choice(inside)
        if origin in (tuple, list, frozenset, set):
            return self._several(origin, inside, depth)
        if origin in (dict, Mapping):
            return {self.value(inside[0], depth): self.value(inside[1], depth + 1) for _ in range(self._count(depth))}
        return self._plain(kind, depth)

    def _count(self, depth: int) -> int:
        return self.chosen.choice((0, 0, 1, 2) if depth > 4 else (0, 1, 1, 2, 3))

    def _several(self, origin: Any, inside: tuple[Any, ...], depth: int) -> Any:
        if origin is tuple and inside and inside[-1] is not Ellipsis:
            return tuple(self.value(i, depth + 1) for i in inside)
        return origin(self.value(inside[0], depth + 1) for _ in range(self._count(depth)))

    def _plain(self, kind: Any, depth: int) -> Any:
        plain: dict[Any, Any] = {
            str: TEXTS, int: NUMBERS, float: (*map(float, NUMBERS), 0.5), bool: (True, False), type(None): (None,), object: TEXTS,
            Any: (*TEXTS, *NUMBERS, None), bytes: (b"", b"x"),
            datetime: tuple(NOW + timedelta(seconds=s) for s in (-90_000, -600, -1, 0, 1)),
        }  # fmt: skip
        if kind in plain:
            return self.chosen.choice(plain[kind])
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self.chosen.choice(list(kind))
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self.model(kind, depth)
        if hasattr(kind, "__supertype__"):
            return self.value(kind.__supertype__, depth)
        raise Nothing(f"no value of {kind!r}")

    def model(self, kind: type[BaseModel], depth: int) -> BaseModel:
        known = self.known.get(kind, [])
        if known and depth and self.chosen.random() < 0.25:
            return self.chosen.choice(known)
        for _ in range(4):
            fields = {
                n: self.value(f.annotation, depth + 1)
                for n, f in kind.model_fields.items()
                if f.is_required() or (depth < 9 and self.chosen.random() < 0.7)
            }
            try:
                return kind.model_validate(fields)
            except ValidationError:
                continue
        if known:
            return self.chosen.choice(known)
        raise Nothing(f"no {kind.__name__} that its own rules take")


@pytest.mark.parametrize("runbook", runbook_slugs())
def test_worlds_that_nobody_wrote(runbook: str) -> None:
    kind = import_module(f"runbooks.{folder_of(runbook)}.evidence").Evidence
    made, seen = 0, Counter[str]()
    for seed in range(MANY):
        maker = Maker(random.Random(f"{runbook} {seed}"), pool(runbook))
        try:
            evidence = maker.model(kind, 0)
        except Nothing:
            continue
        made += 1
        said = raised(Situation(runbook, f"seed {seed}", evidence, load_runbook(runbook).limit_values()), evidence)
        if said:
            seen[f"{said}\n    seed {seed}"] += 1
    assert made > MANY // 3, f"only {made} of {MANY} worlds could be made"
    assert not seen, f"{len(seen)} of {made} judgments raised:\n" + "\n".join(list(seen)[:12])
