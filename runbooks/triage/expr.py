"""Conditions of signatures: comparisons over numbers and words, evaluated without `eval`."""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Value = float | str | bool | tuple[int, ...]
_SIZES = {"": 1.0, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_TIMES = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
}
_SIZE = re.compile(r"\s*([\d.,]+)\s*([kmgtp]?)i?b?(?:ytes?)?\s*\Z", re.IGNORECASE)
_TIME = re.compile(r"\s*([\d.,]+)\s*(ms|s|sec|second|m|min|minute|h|hour|d|day)s?\s*\Z", re.IGNORECASE)
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
MOST = 256  # combinations tried when facts have several values


class UnknownName(Exception):
    """A name in the condition has no value."""


def size(text: str) -> float:
    """Bytes: "11.17 GiB", "530 MB", "42". Powers of 1024: what GPU tools mean, and near enough for the rest."""
    found = _SIZE.match(text)
    if not found:
        raise UnknownName(text)
    return float(found[1].replace(",", "")) * _SIZES[found[2].lower()]


def seconds(text: str) -> float:
    """Seconds: "600 s", "22 days", "1800000 ms"."""
    found = _TIME.match(text)
    if not found:
        raise UnknownName(text)
    return float(found[1].replace(",", "")) * _TIMES[found[2].lower()]


def version(text: str) -> tuple[int, ...]:
    """(2, 9, 0) of "2.9.0+cu118"."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    if not found:
        raise UnknownName(text)
    return tuple(int(p) for p in found[1].split("."))


def fills(text: str) -> str:
    """Who fills the GPU, by the numbers of this out-of-memory message of CUDA: a slug."""
    from runbooks.triage.sums import fills as judged  # reads memory-pressure's limits: only where such a message stands

    return judged(text)


_CALLS: dict[str, Callable[[str], Value]] = {"size": size, "seconds": seconds, "version": version, "fills": fills}


def number(text: str) -> Value:
    """A captured text as a number where it is one, else as it stands (lower case)."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text.strip().lower()


@lru_cache(maxsize=4096)
def parse(condition: str) -> ast.expr:
    """The checked syntax tree. Raises ValueError for anything but arithmetic, comparisons and the known functions."""
    tree = ast.parse(condition, mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _CALLS):
            raise ValueError(f"{condition!r}: only {', '.join(_CALLS)} may be called")
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"{condition!r}: {type(node).__name__} is not allowed")
    return tree


_ALLOWED = (
    ast.expr_context,
    ast.operator,
    ast.cmpop,
    ast.boolop,
    ast.unaryop,
    ast.BinOp,
    ast.Compare,
    ast.BoolOp,
    ast.UnaryOp,
    ast.Name,
    ast.Constant,
    ast.Call,
)


def names(condition: str) -> set[str]:
    """Names of groups and facts that it uses."""
    return {n.id for n in ast.walk(parse(condition)) if isinstance(n, ast.Name)} - set(_CALLS)


def holds(condition: str, values: Mapping[str, tuple[Value, ...]]) -> bool:
    """Whether some choice of the known values makes it true. An unknown name makes it false."""
    used = sorted(names(condition))
    if any(not values.get(n) for n in used):
        return False
    for combination in itertools.islice(itertools.product(*(values[n] for n in used)), MOST):
        try:
            if _value(parse(condition), dict(zip(used, combination, strict=True))):
                return True
        except (UnknownName, TypeError, ZeroDivisionError):
            continue
    return False


def _value(node: ast.expr, known: Mapping[str, Value]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        given = _value(node.args[0], known)
        return _CALLS[node.func.id](f"{given:g}" if isinstance(given, float) else str(given))
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, known), _value(node.right, known))
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, known)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BoolOp):
        parts = [_value(v, known) for v in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.Compare):
        return _compare(node, known)
    raise UnknownName(ast.dump(node))


def _compare(node: ast.Compare, known: Mapping[str, Value]) -> bool:
    left = _value(node.left, known)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, known)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True
