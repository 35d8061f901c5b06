"""A pydantic error as the operator's line: file, line, field, what was found, what is allowed."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from runbooks.core.names import there_are

PLAIN_TYPES = (bool, int, float)


def explain(
    path: str, root: yaml.Node | None, errors: Sequence[ErrorDetails], model: type[BaseModel], shown: bool = True
) -> Iterator[str]:
    """One line per field at fault, in the order of the file, with what was found there if `shown`.

    Faults that only follow from another are left out.
    """
    places: dict[tuple[int, str], list[ErrorDetails]] = {}
    for error in _own_faults(errors):
        line, field = _place(root, error)
        places.setdefault((line, field), []).append(error)
    for (line, field), faults in sorted(places.items(), key=lambda item: item[0][0]):
        said = " or ".join(dict.fromkeys(_message(f, model) for f in faults))
        where = f"line {line}: {field}" if root is not None else "in a line that was not looked for"
        yield f"{path}: {where}: {said}{_found(faults[0]) if shown else ''}"


def kind(value: object) -> str:
    """A value's kind in plain words."""
    names = {"dict": "a mapping", "list": "a list", "str": "text", "NoneType": "nothing"}
    return names.get(type(value).__name__, type(value).__name__)


def _own_faults(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Without "too short" of a list whose items are at fault themselves: pydantic does not count those items."""
    locs = [e["loc"] for e in errors]

    def follows(error: ErrorDetails) -> bool:
        loc = error["loc"]
        return error["type"] == "too_short" and any(len(o) > len(loc) and o[: len(loc)] == loc for o in locs)

    return [e for e in errors if not follows(e)]


def _place(root: yaml.Node | None, error: ErrorDetails) -> tuple[int, str]:
    """Line and dotted name of the field, without parts of `loc` that are no field (a union's branch)."""
    loc = error["loc"]
    node, line, names = root, 1, []
    for i, part in enumerate(loc):
        child, child_line = _step(node, part)
        if child_line is not None:
            node, line = child, child_line
            names.append(str(part))
        elif error["type"] == "missing" and i == len(loc) - 1:
            names.append(str(part))
    return line, ".".join(names) or "(whole file)"


def _step(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node | None, int | None]:
    """The child of `node` named `part` and its line; a mapping merged with `<<` is looked into as well."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line + 1
    return None, None


def _found(error: ErrorDetails) -> str:
    if error["type"] in ("missing", "extra_forbidden"):  # the value of an unknown field may be a secret
        return ""
    value = error.get("input")
    if isinstance(value, (dict, list, tuple)):
        return f"; found {kind(value)}"
    text = "nothing" if value is None else repr(value)
    return f"; found {text if len(text) <= 60 else text[:57] + '...'}"


def _message(error: ErrorDetails, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        allowed = sorted(_fields_at(model, error["loc"][:-1]))
        return "unknown field" + (f"; {there_are(str(error['loc'][-1]), allowed)}" if allowed else "")
    if error["type"] == "missing":
        return "required, but missing"
    if error["type"] == "string_type" and isinstance(error.get("input"), PLAIN_TYPES):
        return "must be text: put it in quotes"
    said = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    said = said.replace("must be a valid tuple", "must be a list").replace("String should match", "must match")
    return said.replace("Tuple should have at least 1 item after validation, not 0", "must have at least one entry")


def _fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> set[str]:
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
