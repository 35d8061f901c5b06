"""Parameter groups of an optimizer as a checkpoint keeps them: how many parameters, which settings. Python 3.8, stdlib only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from runbooks.checkpoint.parsers.pickled import as_dict

NAME = re.compile(r"(?P<group>(?:.*\.)?param_groups\.(?:\d+|.+))\.(?P<key>\w+)$")
DEEPEST = 4  # how far below the top an optimizer lies: Lightning keeps them at optimizer_states.0.param_groups
MOST = 64  # groups that are kept


def groups_of(root: Any) -> list[tuple[str, int, list[str]]]:
    """Every group of every optimizer in a state dict."""
    found: list[tuple[str, int, list[str]]] = []
    todo: list[tuple[Any, str, int]] = [(root, "", 0)]
    while todo and len(found) < MOST:
        value, path, depth = todo.pop()
        mapping = as_dict(value)
        if mapping is not None:
            kept = mapping.get("param_groups")
            if isinstance(kept, list):
                found.extend(g for i, v in enumerate(kept) for g in _group(v, f"{path}param_groups.{i}"))
            inside = [(v, f"{path}{k}.") for k, v in mapping.items() if k not in ("param_groups", "state")]
        else:
            inside = [(v, f"{path}{i}.") for i, v in enumerate(value)] if isinstance(value, (list, tuple)) else []
        if depth < DEEPEST and len(inside) <= 1000:
            todo.extend((v, p, depth + 1) for v, p in reversed(inside) if as_dict(v) is not None or isinstance(v, (list, tuple)))
    return found[:MOST]


def _group(value: Any, name: str) -> list[tuple[str, int, list[str]]]:
    group = as_dict(value)
    if group is None:
        return []
    params = group.get("params")
    count = len(params) if isinstance(params, (list, tuple)) else -1
    return [(name, count, sorted(str(k) for k in group if k != "params"))]


def stored_groups(names: Iterable[str]) -> list[tuple[str, int, list[str]]]:
    """The same from the names in a distributed checkpoint: `optimizer.param_groups.0.betas`, or one "group" per parameter. Its
    number of parameters is not in the names."""
    settings: dict[str, set[str]] = {}
    for name in names:
        match = NAME.match(name)
        if match:
            settings.setdefault(match["group"], set()).add(match["key"])
    return [(group, -1, sorted(keys - {"params"})) for group, keys in sorted(settings.items())[:MOST]]
