"""Arguments for a step of any kind, for tests of what does not look at them."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from runbooks.core.args.table import ARGS

PLAIN: dict[Any, Any] = {str: "x", int: 1, float: 1.0, bool: False}


def sample(kind: str, **given: Any) -> dict[str, Any]:
    """The least that its model takes, with what is given; {} for a kind that has none."""
    return (of(ARGS[kind]) if kind in ARGS else {}) | given


def ending(*pids: int) -> dict[str, Any]:
    """Arguments that end these processes."""
    listed = [{"pid": pid, "start_ticks": 9, "command": "python train.py", "uid": 0} for pid in pids]
    return sample("terminate-processes", processes=listed)


def of(model: type[BaseModel]) -> dict[str, Any]:
    """Its required fields, by the names that are stored."""
    return {f.alias or name: value(f.annotation) for name, f in model.model_fields.items() if f.is_required()}


def value(of_type: Any) -> Any:
    """The least value of that type."""
    parts = get_args(of_type)
    if get_origin(of_type) in (Union, UnionType):
        return None if NoneType in parts else value(parts[0])
    if get_origin(of_type) is tuple:
        return [] if Ellipsis in parts else [value(p) for p in parts]
    if get_origin(of_type) is Literal:
        return parts[0]
    if hasattr(of_type, "__metadata__"):
        return value(parts[0])
    return of(of_type) if isinstance(of_type, type) and issubclass(of_type, BaseModel) else PLAIN[of_type]
