"""The tables of one look: those that the runbook declares in its `tables.py`, else some that are made from its evidence model."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, ValidationError

from runbooks.core.knowledge import Runbook, folder_of, runbook_slugs
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Unknown
from runbooks.core.reading_words import label, own_name
from runbooks.core.replay import ReplayError, fit
from runbooks.core.table import MOST, EvidenceTable, ShownTable, arranged, cell, counted, row, table
from runbooks.core.verdict import Diagnosis

COLUMNS = 7  # design: of a table that nobody declared
FEW = 10  # design: rows of the one table that a healthy report shows
NAMES = 4  # design: in a cell


def tables_of(slug: str, evidence: dict[str, Any], found: Diagnosis, book: Runbook | None, first: int = MOST) -> tuple[ShownTable, ...]:
    """The tables of a report's evidence. None where the record does not fit today's code. `first`: rows of the first one."""
    try:
        seen = _typed(slug, evidence)
        declared = declared_tables(slug, seen) if seen is not None else ()
    except (ReplayError, *ODD_ANSWER):  # a record of another version: the raw readings show it
        return ()
    known = book.causes if book else {}
    some = enumerate(one for one in declared if one.rows)
    shown = (arranged(one, found.causes, known, MOST if number else first) for number, one in some)
    return tuple(one for one in shown if one.head)


def _typed(slug: str, evidence: dict[str, Any]) -> BaseModel | None:
    if slug not in runbook_slugs() or not evidence:
        return None
    model: type[BaseModel] = import_module(f"runbooks.{folder_of(slug)}.evidence").Evidence
    try:
        return model.model_validate(evidence)
    except ValidationError:
        return fit(evidence, model, [])


def declared_tables(slug: str, evidence: BaseModel) -> tuple[EvidenceTable, ...]:
    """Those of `runbooks/SUBJECT/tables.py`; where there is none, those of the model."""
    own = _declaring(slug)
    return tuple(import_module(own).tables(evidence) if own else tables_by_model(evidence))


@cache
def _declaring(slug: str) -> str:
    """The module that declares the runbook's tables; "" if there is none."""
    name = f"runbooks.{folder_of(slug)}.tables"
    return name if find_spec(name) else ""


def tables_by_model(evidence: BaseModel) -> Iterator[EvidenceTable]:
    """One of all readings, and one of each list that was read."""
    fields = [(label(type(evidence), name), getattr(evidence, name)) for name in type(evidence).model_fields]
    rows = [row(called, *_told(value), worse=_worse(value)) for called, value in fields if _holds_readings(value)]
    yield table("Readings", "reading | status | in short", rows)
    for called, value in fields:
        yield from _of_items(called, value.value if isinstance(value, Known) else value)


def _holds_readings(value: Any) -> bool:
    return isinstance(value, Known | Absent | Unknown) or (isinstance(value, tuple | Mapping) and bool(value))


def _told(value: Any) -> tuple[str, str]:
    if isinstance(value, Unknown):
        return "NOT READ", value.why
    if isinstance(value, Absent):
        return "not there", value.proof
    return "read", short(value.value if isinstance(value, Known) else value)


def _worse(value: Any) -> float:
    return 2.0 if isinstance(value, Unknown) else float(isinstance(value, Absent))


def short(value: Any) -> str:
    """A value in a cell: a number as it is, a list by its names, a table by its first entries, a model by what it has."""
    if isinstance(value, Known | Absent | Unknown):
        return ": ".join(filter(None, _told(value)))
    if isinstance(value, BaseModel):
        return counted((f"{label(type(value), n)} {cell(v)}" for n, v in _plain(value)), NAMES)
    if isinstance(value, Mapping):
        return f"{len(value)}: {counted((f'{k} = {short(v)}' for k, v in value.items()), NAMES)}" if value else "none"
    if isinstance(value, tuple | list):
        names = (own_name(v) if isinstance(v, BaseModel) else short(v) for v in value)
        return f"{len(value)}: {counted(names, NAMES)}" if value else "none"
    return cell(value)


def _plain(item: BaseModel) -> Iterator[tuple[str, Any]]:
    """Name and value of each field that says something in a cell."""
    for name in type(item).model_fields:
        value = getattr(item, name)
        if isinstance(value, str | int | float) and value != "":
            yield name, value


def _of_items(called: str, value: Any) -> Iterator[EvidenceTable]:
    """A table of a list of models, or of a mapping."""
    if isinstance(value, Mapping) and value:
        yield table(called.capitalize(), "name | value", (row(str(k), short(v), about=str(k), worse=_worse(v)) for k, v in value.items()))
    elif isinstance(value, tuple) and value and all(map(_is_item, value)):
        names = dict.fromkeys((name, label(type(item), name)) for item in value for name, _ in _plain(item))
        shown = list(names)[:COLUMNS]
        rows = (row(*(short(getattr(item, name, None)) for name, _ in shown), about=own_name(item)) for item in value)
        yield table(called.capitalize(), " | ".join(head for _, head in shown), rows)


def _is_item(value: Any) -> bool:
    return isinstance(value, BaseModel) and not isinstance(value, Known | Absent | Unknown)
