"""What a changing probe must be told: each has a table WANTS of names and kinds of value, held against what it is sent. Python 3.6.

Kinds: str, int, number, bool, list, dict; with "?" behind it may also be null or missing. Instead of a kind, a table of tables: the
value is one of its names, and what stands under that name is wanted too.
"""

from typing import Any

KINDS = {"str": (str,), "int": (int,), "number": (int, float), "bool": (bool,), "list": (list,), "dict": (dict,)}


def misfit(ask: "dict[str, Any]", wants: "dict[str, Any]") -> str:
    """What of it is missing or of another kind, in words without values; "" if it fits."""
    return "; ".join(["%s: %s" % (name, no) for name, no in sorted(wrong(ask, wants).items()) if no])


def wrong(ask: "dict[str, Any]", wants: "dict[str, Any]") -> "dict[str, str]":
    """Each wanted name and what is wrong with its value, "" for nothing."""
    found = {name: fault(ask.get(name), kind, name in ask) for name, kind in wants.items()}
    for name, kind in wants.items():
        if isinstance(kind, dict) and not found[name]:
            found.update(wrong(ask, kind[ask[name]]))
    return found


def fault(value: "Any", kind: "Any", there: bool) -> str:
    """Why that value is none of that kind."""
    if value is None and not isinstance(kind, dict) and kind.endswith("?"):
        return ""
    if not there:
        return "missing"
    if isinstance(kind, dict):
        return "" if isinstance(value, str) and value in kind else "should be one of %s" % ", ".join(sorted(kind))
    allowed = KINDS[kind.rstrip("?")]
    fits = isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))
    return "" if fits else "should be %s, is %s" % (kind.rstrip("?"), type(value).__name__)
