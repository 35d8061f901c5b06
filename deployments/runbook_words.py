"""What `gpu-runbooks list` says of runbooks, in plain text."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from runbooks.core.clean import one_line

Head = dict[str, Any]


def in_short(heads: Sequence[Head]) -> str:
    """A line per runbook: name, title, target."""
    width = max((len(h["slug"]) for h in heads), default=0)
    titles = max((len(h["title"]) for h in heads), default=0)
    rows = [f"{h['slug']:<{width}}  {h['title']:<{titles}}  {_first(h['target'])}" for h in heads]
    return "\n".join(rows)


def in_full(head: Head) -> str:
    """Everything that a person needs before running it."""
    actions = ", ".join(head["actions"]) or "nothing"
    parts = [
        f"{head['slug']}: {head['title']}",
        _wrapped(head["summary"]),
        f"target:      {head['target']}",
        f"nightly:     {'yes, where it applies' if in_nightly(head['slug']) else 'no'}",
        _wrapped(f"may change:  {actions}", " " * 13),
    ]
    if head["options"]:
        parts.append("options (--option NAME=VALUE):")
        parts += [_option(name, given) for name, given in head["options"].items()]
    return "\n".join(parts)


def in_nightly(slug: str) -> bool:
    """Whether the nightly runs it on anything."""
    from flows.specs import SPECS

    given: dict[str, Any] = getattr(SPECS[slug], "keywords", {})
    return given.get("nightly", True) is not None or "nightly_targets" in given


def _option(name: str, given: dict[str, Any]) -> str:
    unit, choices = given.get("unit", ""), ", ".join(given.get("choices", ()))
    more = f" [{unit}]" if unit else f" [{choices}]" if choices else ""
    example = f" Example: {name}={given['example']}" if given.get("example") else ""
    return _wrapped(f"  {name}{more}: {one_line(given.get('help', ''))}{example}", " " * 6)


def _first(target: str) -> str:
    return re.split(r"[;,(]", target)[0].strip()


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
