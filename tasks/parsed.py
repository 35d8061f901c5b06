"""Parses Python text in one thread at a time: the parser of Python 3.11 breaks where two do (github.com/python/cpython/issues/106905)."""

import ast
from threading import Lock

_ONE = Lock()


def module_of(text: str) -> ast.Module:
    """The text as a module. Raises SyntaxError."""
    with _ONE:
        return ast.parse(text)
