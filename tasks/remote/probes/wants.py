"""What a changing probe must be told: each has a table WANTS of names and kinds of value, held against what it is sent. Python 3.6.

Kinds: str, int, number, bool, list, dict; with "?" behind it may also be null or missing.
"""

from typing import Any

KINDS = {"str": (str,), "int": (int,), "number": (int, float), "bool": (bool,), "list": (list,), "dict": (dict,)}


def misfit(ask: "dict[str, Any]", wants: "dict[str, str]") -> str:
    """What of it is missing or of another kind, in words without values; "" if it fits."""
    return "; ".join(["%s: %s" % (name, no) for name, no in sorted(wrong(ask, wants).items()) if no])


def wrong(ask: "dict[str, Any]", wants: "dict[str, str]") -> "dict[str, str]":
    """Each wanted name and what is wrong with its value, "" for nothing."""
    return {name: fault(ask.get(name), kind, name in ask) for name, kind in wants.items()}


def fault(value: "Any", kind: str, there: bool) -> str:
    """Why that value is none of that kind."""
    if value is None and kind.endswith("?"):
        return ""
    if not there:
        return "missing"
    allowed = KINDS[kind.rstrip("?")]
    fits = isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))
    return "" if fits else "should be %s, is %s" % (kind.rstrip("?"), type(value).__name__)
