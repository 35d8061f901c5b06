"""The example fleet and policy files validate, and show every field of the models."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from runbooks.core.config import parse_yaml
from runbooks.core.fleet import Fleet
from runbooks.core.policy import Policy
from runbooks.notify.config import Notifications

HERE = Path(__file__).parents[2] / "deployments"
EXAMPLES = [("fleet.example.yaml", Fleet), ("policy.example.yaml", Policy), ("notifications.example.yaml", Notifications)]


@pytest.mark.parametrize(("name", "model"), EXAMPLES)
def test_example_validates(name: str, model: type[BaseModel]) -> None:
    parse_yaml((HERE / name).read_text(encoding="utf-8"), model, name)


@pytest.mark.parametrize(("name", "model"), EXAMPLES)
def test_example_shows_every_field(name: str, model: type[BaseModel]) -> None:
    data = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))
    shown: dict[type[BaseModel], set[str]] = {}
    _collect(model, [data], shown)
    missing = {m.__name__: sorted(set(m.model_fields) - names) for m, names in shown.items()}
    assert {m: names for m, names in missing.items() if names} == {}


def _collect(model: type[BaseModel], examples: list[Any], shown: dict[type[BaseModel], set[str]]) -> None:
    """Adds to `shown` which fields of each model the example uses anywhere."""
    names = shown.setdefault(model, set())
    for name, field in model.model_fields.items():
        values = [e[name] for e in examples if isinstance(e, dict) and name in e]
        names |= {name} if values else set()
        inner = _model_in(field.annotation)
        if inner:
            _collect(inner, list(_flat(values, inner)), shown)


def _flat(values: list[Any], model: type[BaseModel]) -> Iterator[Any]:
    """The mappings of that model inside lists and name -> model mappings."""
    for value in values:
        if isinstance(value, list):
            yield from _flat(value, model)
        elif isinstance(value, dict) and not set(value) & set(model.model_fields):
            yield from _flat(list(value.values()), model)
        else:
            yield value


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, tuple, dict):
        return next((m for a in get_args(annotation) if (m := _model_in(a))), None)
    return None
