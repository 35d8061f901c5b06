"""YAML files of the tests: the situations of all runbooks are read when the tests are collected, by every process."""

from pathlib import Path
from typing import Any

import yaml


def read_yaml(path: Path) -> Any:
    """Its one document. By libyaml: the parser in Python takes ten times as long."""
    with path.open(encoding="utf-8") as file:  # an error names it
        return yaml.load(file, Loader=yaml.CSafeLoader)


def read_yaml_all(path: Path) -> list[Any]:
    """Its documents."""
    with path.open(encoding="utf-8") as file:
        return list(yaml.load_all(file, Loader=yaml.CSafeLoader))
