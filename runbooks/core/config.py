"""YAML text to pydantic models, with errors that name file, line, field, what was found and what is allowed."""

from collections.abc import Iterator
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)


class ConfigError(Exception):
    """Bad configuration. The message has one line per fault and is meant for the operator as it stands."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys (PyYAML silently keeps the last)."""


def _unique_mapping(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if isinstance(key, (dict, list)):
            raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"{key!r} is given twice (first in line {seen[key]})", key_node.start_mark
            )
        seen[key] = line
    return yaml.SafeLoader.construct_mapping(loader, node, deep)


def _construct(loader: _Loader, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    data: dict[Any, Any] = {}
    yield data
    data.update(_unique_mapping(loader, node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct)


def parse_yaml(text: str, model: type[M], path: str) -> M:
    """`text` of the file `path` as `model`. Raises ConfigError."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader subclass
    except yaml.MarkedYAMLError as e:
        where = f"line {e.problem_mark.line + 1}, column {e.problem_mark.column + 1}" if e.problem_mark else "?"
        raise ConfigError(f"{path}: {where}: {e.problem or e.context}") from e
    except yaml.YAMLError as e:
        raise ConfigError(f"{path}: not YAML: {e}") from e
    if data is None:
        raise ConfigError(f"{path}: the file is empty")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: line 1: expected a mapping, found {_kind(data)}")
    try:
        return model.model_validate(data)
    except ValidationError as e:
        lines = [_explain(path, node, d, model) for d in e.errors(include_url=False)]
        raise ConfigError("\n".join(lines)) from e


def _kind(value: object) -> str:
    names = {"dict": "a mapping", "list": "a list", "str": "text", "NoneType": "nothing"}
    return names.get(type(value).__name__, type(value).__name__)


def _explain(path: str, root: "yaml.Node | None", error: ErrorDetails, model: type[BaseModel]) -> str:
    loc = [p for p in error["loc"] if not (isinstance(p, str) and p.startswith("function-"))]
    node, line, depth = root, 1, 0
    for part in loc:
        child, child_line = _step(node, part)
        if child_line is None:
            continue  # a union tag or a missing key: stay where we are
        node, line, depth = child, child_line, depth + 1
    field = ".".join(str(p) for p in loc) or "(whole file)"
    found = "" if error["type"] == "missing" else f"; found {_shorten(error.get('input'))}"
    return f"{path}: line {line}: {field}: {_message(error, model, loc)}{found}"


def _shorten(value: object) -> str:
    if isinstance(value, (dict, list)):
        return _kind(value)
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _step(node: "yaml.Node | None", part: str | int) -> "tuple[yaml.Node | None, int | None]":
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line + 1
    return None, None


def _message(error: ErrorDetails, model: type[BaseModel], loc: list[str | int]) -> str:
    if error["type"] == "extra_forbidden":
        allowed = sorted(_fields_at(model, loc[:-1]))
        return "unknown field" + (f"; allowed here: {', '.join(allowed)}" if allowed else "")
    if error["type"] == "missing":
        return "required, and not there"
    return error["msg"].removeprefix("Value error, ")


def _fields_at(model: type[BaseModel], loc: list[str | int]) -> set[str]:
    """Field names of the model at `loc`, as far as annotations tell."""
    current: Any = model
    for part in loc:
        if isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = current.model_fields[str(part)].annotation
        current = _model_in(current)
    return set(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else set()


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
