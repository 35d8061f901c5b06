"""Matchers as in Alertmanager: `name = "value"` with = != =~ !~. A label that is not there counts as empty."""

import re
from functools import cache
from typing import Annotated

import re2
from pydantic import AfterValidator

SHAPE = re.compile(r'^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^"]*?)\s*$', re.DOTALL)
LONGEST_MATCHER, LONGEST_PATTERN = 5_000, 500
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
    if len(text) > LONGEST_MATCHER:
        raise ValueError(f"longer than {LONGEST_MATCHER} characters")
    _, operator, value = split(text)
    if operator.endswith("~"):
        if len(value) > LONGEST_PATTERN:
            raise ValueError(f"pattern longer than {LONGEST_PATTERN} characters")
        try:
            _compiled(value)
        except re2.error as e:
            raise ValueError(f"{value!r} is no regular expression as Alertmanager takes it (RE2): {e}") from e
    return text


@cache
def _compiled(pattern: str) -> re2._Regexp:  # of the alerts file: as many as it has
    """The pattern as Alertmanager compiles it. RE2 needs time in proportion to the label, whatever the pattern."""
    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    return re2.compile(pattern, options)


Matcher = Annotated[str, AfterValidator(checked)]


def matches(text: str, labels: dict[str, str]) -> bool:
    """Does the matcher hold for these labels? Patterns must match the whole value, as in Alertmanager."""
    name, operator, wanted = split(text)
    value = labels.get(name, "")
    if operator in ("=", "!="):
        return (value == wanted) is (operator == "=")
    return (_compiled(wanted).fullmatch(value) is not None) is (operator == "=~")
