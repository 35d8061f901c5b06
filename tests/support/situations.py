"""Situations told as what differs from a base."""

from typing import Any


def merge(base: Any, change: Any) -> Any:
    """`change` over `base`; a mapping that names a `kind` replaces the whole reading."""
    if not isinstance(base, dict) or not isinstance(change, dict) or "kind" in change:
        return change
    return {**base, **{k: merge(base.get(k), v) for k, v in change.items()}}
