"""Matchers as in Alertmanager: `name = "value"` with = != =~ !~. A label that is not there counts as empty."""

import re
from typing import Annotated

from pydantic import AfterValidator

SHAPE = re.compile(r'^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^"]*?)\s*$', re.DOTALL)
LONGEST_PATTERN = 500
ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


def split(text: str) -> tuple[str, str, str]:
    """(label, operator, value). Raises ValueError that says how to write it."""
    found = SHAPE.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no matcher; write  name=\"value\"  with one of = != =~ !~")
    name, operator, value = found.groups()
    if value.startswith('"'):
        value = re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], "\\" + m[1]), value[1:-1], flags=re.DOTALL)
    return name, operator, value


def checked(text: str) -> str:
    """`text`, if it is a matcher with a pattern that compiles."""
    _, operator, value = split(text)
    if operator.endswith("~"):
        if len(value) > LONGEST_PATTERN:
            raise ValueError(f"pattern longer than {LONGEST_PATTERN} characters")
        if risky(value):
            raise ValueError(f"{value!r}: a repeated group that repeats inside can take for ever on a hostile label")
        try:
            re.compile(value)
        except re.error as e:
            raise ValueError(f"{value!r} is no regular expression: {e}") from e
    return text


def risky(pattern: str) -> bool:
    """True for nested repetition such as (a+)+, which Python's `re` can need exponential time for."""
    return re.search(r"\([^()]*[+*}][^()]*\)\s*[+*{]", pattern) is not None


Matcher = Annotated[str, AfterValidator(checked)]


def matches(text: str, labels: dict[str, str]) -> bool:
    """Does the matcher hold for these labels? Patterns must match the whole value, as in Alertmanager."""
    name, operator, wanted = split(text)
    value = labels.get(name, "")
    if operator in ("=", "!="):
        return (value == wanted) is (operator == "=")
    return (re.fullmatch(wanted, value, re.DOTALL) is not None) is (operator == "=~")
