"""YAML text to pydantic models, with errors that name file, line, field, what was found and what is allowed."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runbooks.core.config_errors import explain, kind
from runbooks.core.whole_number import MOST_DIGITS
from runbooks.core.yaml_loader import LOADER

M = TypeVar("M", bound=BaseModel)
Fault = tuple[tuple[str | int, ...], str]
"""Where in the file (as in pydantic's `loc`), and what is wrong there."""


class ConfigError(Exception):
    """Bad configuration. The message has one line per fault and is meant for the operator as it stands."""


LARGEST = 2 << 20  # characters; a fleet of a thousand nodes is a sixth of it
MOST_NODES = 200_000  # YAML nodes after every alias is followed
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(LOADER):  # type: ignore[valid-type,misc]
    """SafeLoader that refuses duplicate keys (PyYAML silently keeps the last)."""


def _unique_mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, Hashable):
            raise _at(key_node, "a key must be plain text")
        if key in seen:
            raise _at(key_node, f"{key!r} is given twice (first in line {seen[key]})")
        seen[key] = line
    data: dict[Any, Any] = yaml.SafeLoader.construct_mapping(loader, node, deep=True)
    return data


def _at(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _construct(loader: Any, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    data: dict[Any, Any] = {}
    yield data
    data.update(_unique_mapping(loader, node))


def _scalar(loader: Any, node: yaml.ScalarNode) -> Any:
    """A number, a date, yes or no; one that is impossible or endless is told with its line."""
    kind_of = node.tag.rpartition(":")[2]
    try:
        value = getattr(yaml.SafeLoader, f"construct_yaml_{kind_of}")(loader, node)
    except (ValueError, OverflowError, LookupError, AttributeError) as e:
        raise _at(node, f"{str(node.value)[:40]!r} is {_SCALARS[kind_of]}; put it in quotes if it is text") from e
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise _at(node, f"a number of more than {MOST_DIGITS} digits; put it in quotes if it is text")
    return value


_SCALARS = {"int": "no number", "float": "no number", "timestamp": "no date", "bool": "neither yes nor no"}
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct)
for _name in _SCALARS:
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _scalar)


def parse_yaml(text: str, model: type[M], path: str, names: Callable[[M], Iterable[Fault]] = lambda _: ()) -> M:
    """`text` of the file `path` as `model`; `names` tells what the types alone cannot. Raises ConfigError with every fault."""
    node, data = _read(text, path)
    if data is None:
        raise ConfigError(f"{path}: the file is empty")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: line 1: expected a mapping, found {kind(data)}")
    try:
        found = model.model_validate(data)
    except ValidationError as e:
        raise ConfigError("\n".join(explain(path, node, e.errors(include_url=False), model))) from e
    if faults := [ErrorDetails(type="value_error", loc=loc, msg=said, input="") for loc, said in names(found)]:
        raise ConfigError("\n".join(explain(path, node, faults, model, shown=False)))
    return found


def yaml_data(text: str, path: str, loader: type[Any] = _Loader) -> Any:
    """The data of the one YAML document in `text`, whatever it is; the loader of every file of unknown making. Raises ConfigError."""
    return _read(text, path, loader)[1]


def loader_of(tags: Mapping[str, Callable[[str], Any]]) -> type[Any]:
    """A loader for `yaml_data`. `tags`: what the text of a value with such a tag of another tool stands for; any other tag is refused."""

    def made(meaning: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
        return lambda loader, node: meaning(loader.construct_scalar(node))

    known = _Loader.yaml_constructors | {tag: made(meaning) for tag, meaning in tags.items()}
    return type("_Tagged", (_Loader,), {"yaml_constructors": known})


def parse_json(text: str, model: type[M], path: str) -> M:
    """`text` of the JSON file `path` as `model`. Raises ConfigError with every fault; its words show no value."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{path}: not JSON: {str(e)[:300]}") from e
    try:
        return model.model_validate(data)
    except ValidationError as e:
        raise ConfigError("\n".join(explain(path, _lines_of(text), e.errors(include_url=False), model, shown=False))) from None


def _lines_of(text: str) -> yaml.Node | None:
    """The nodes of a JSON text, only to say in which line a fault is; None where it is too long, or no YAML."""
    try:
        return yaml.compose(text, Loader=LOADER) if len(text) <= LARGEST else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _read(text: str, path: str, loader_type: type[Any] = _Loader) -> tuple[yaml.Node | None, Any]:
    """The one document of `text`, as nodes (for line numbers) and as data. Bounded in size, depth and aliases."""
    if len(text) > LARGEST:
        raise ConfigError(f"{path}: larger than {LARGEST >> 20} MiB; is it the right file?")
    loader: Any = None
    try:
        loader = loader_type(text)
        node = loader.get_single_node()
        _check_size(node, path)
        return node, loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "?"
        raise ConfigError(f"{path}: {where}: {e.problem or e.context}{_hint(text, mark)}") from e
    except yaml.YAMLError as e:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(e).split())}") from e
    except RecursionError as e:
        raise ConfigError(f"{path}: nested too deep") from e
    except ValueError as e:  # an impossible date or number, or text that cannot be encoded
        raise ConfigError(f"{path}: not YAML: {e}") from e
    finally:
        if loader is not None:
            loader.dispose()


def _hint(text: str, mark: Any) -> str:
    """A line that is indented with a tab is the commonest fault that the parser's words do not name."""
    lines = text.splitlines()
    near = lines[mark.line] if mark and mark.line < len(lines) else ""
    return "; use spaces, not tabs" if "\t" in near[: len(near) - len(near.lstrip())] else ""


def _check_size(root: yaml.Node | None, path: str) -> None:
    """Refuses aliases that multiply ("billion laughs") or refer to themselves."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            if sizes[id(node)] == 0:
                raise ConfigError(f"{path}: line {node.start_mark.line + 1}: the anchor refers to itself")
            return sizes[id(node)]
        sizes[id(node)] = 0
        items = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = (part for item in items for part in (item if isinstance(item, tuple) else (item,)))
        sizes[id(node)] = 1 + sum(size(part) for part in inner)
        return sizes[id(node)]

    if root is not None and size(root) > MOST_NODES:
        raise ConfigError(f"{path}: its aliases (*name) expand to more than {MOST_NODES} values")
