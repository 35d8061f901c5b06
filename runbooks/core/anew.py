"""A reading that was made before the look began says nothing of now: what a reader gives a second time is no answer. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.times import utc
from runbooks.core.unread import fields_with_readings

T = TypeVar("T")


def read_anew(evidence: T, began: datetime) -> T:
    """The evidence in which each reading that was made before `began` is unknown. The same object where there is none."""
    return _walk(evidence, began)  # type: ignore[no-any-return]


def why_old(taken_at: object, began: datetime) -> str:
    """Why something that was read at `taken_at` is no answer to a look that began at `began`; "" if it is one."""
    if not isinstance(taken_at, datetime):
        return ""
    at = taken_at if taken_at.tzinfo else taken_at.replace(tzinfo=UTC)
    return f"not read anew: the answer is of {utc(at)}, before this look began" if at < began else ""


def _walk(value: Any, began: datetime) -> Any:
    if isinstance(value, Known | Absent):
        source: Source | None = value.source
        if source and (why := why_old(source.taken_at, began)):
            return Unknown(reason=UnknownReason.FAILED, detail=why, source=source)
        return _with(value, {"value": _walk(value.value, began)}) if isinstance(value, Known) else value
    if isinstance(value, tuple) and any(isinstance(x, BaseModel | tuple | Mapping) for x in value):
        items = tuple(_walk(x, began) for x in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping):
        found = {key: _walk(x, began) for key, x in value.items()}
        return value if all(found[key] is x for key, x in value.items()) else found
    if isinstance(value, BaseModel) and not isinstance(value, Unknown):
        return _with(value, {name: _walk(getattr(value, name), began) for name in fields_with_readings(type(value))})
    return value


def _with(value: BaseModel, fields: dict[str, Any]) -> BaseModel:
    changed = {name: new for name, new in fields.items() if new is not getattr(value, name)}
    return value.model_copy(update=changed) if changed else value
