"""Paths as a person types them."""

import os
from pathlib import Path


def absolute(path: str | None) -> str | None:
    """The path from the root, `~` put in where there is such a home; what a link leads to is not looked up. None for none."""
    return os.path.abspath(os.path.expanduser(path)) if path else None  # noqa: PTH100, PTH111 - text in, text out


def home(path: str | Path) -> Path:
    """The path with `~` put in where there is such a home."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for a user that is not there
