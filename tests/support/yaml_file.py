"""YAML files of the tests: the situations of all runbooks are read when the tests are collected, by every process."""

from pathlib import Path
from typing import Any

import yaml


def read_yaml(path: Path) -> Any:
    """Its one document. By libyaml: the parser in Python takes ten times as long."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def read_yaml_all(path: Path) -> list[Any]:
    """Its documents."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))
