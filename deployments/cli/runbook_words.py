"""What `list`, `list --actions`, `run --help` and their like say of runbooks and kinds of action, in plain text."""

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from runbooks.core.clean import one_line
from runbooks.core.kinds import KINDS
from runbooks.core.undo import in_words

Head = dict[str, Any]
WIDTH = 110


def in_short(heads: Sequence[Head]) -> list[tuple[str, str, str]]:
    """A row per runbook: name, title, target."""
    return [(h["slug"], h["title"], _first(h["target"])) for h in heads]


def in_help(heads: Sequence[Head]) -> str:
    """Below the help of `run` and `list`: of each runbook target, whether it is in the nightly, what it may change, options."""
    width = max((len(h["slug"]) for h in heads), default=0)
    lines = ["runbooks (`gpu-runbooks run --help RUNBOOK` shows more about one):"]
    for h in heads:
        facts = [_first(h["target"]), "in the nightly" if in_nightly(h["slug"]) else "not in the nightly", _worst(h)]
        lines.append(_wrapped(f"  {h['slug']:<{width}}  {'; '.join(facts)}", " " * (width + 4)))
        if h["options"]:
            lines.append(_wrapped(f"  {'':<{width}}  options: {', '.join(h['options'])}", " " * (width + 13)))
    return "\n".join(lines)


def in_full(head: Head) -> str:
    """Everything that a person needs before running it."""
    parts = [
        f"{head['slug']}: {head['title']}",
        _wrapped(head["summary"]),
        f"target:      {head['target']}",
        f"nightly:     {'yes, where it applies' if in_nightly(head['slug']) else 'no'}",
        "may change:  nothing" if not head["actions"] else "may change, if you allow it (`list --actions` shows how each is undone):",
    ]
    parts += [_wrapped(f"  {kind} ({KINDS[kind].risk}): {KINDS[kind].changes}", " " * 6) for kind in head["actions"]]
    if head["options"]:
        parts.append("options (--option NAME=VALUE):")
        parts += [_option(name, given) for name, given in head["options"].items()]
    return "\n".join(parts)


def kind_rows(heads: Sequence[Head]) -> list[dict[str, Any]]:
    """Every kind of action that these runbooks may do, as `list --actions --json` prints it."""
    by_kind = {kind: [h["slug"] for h in heads if kind in h["actions"]] for kind in KINDS}
    return [
        {
            "kind": kind, "runbooks": by_kind[kind], "risk": row.risk.value, "changes": row.changes, "proven": row.proven,
            "undone": in_words(row.undone), "ends": row.ends is not None,
        }
        for kind, row in KINDS.items()
        if by_kind[kind]
    ]  # fmt: skip


def in_kinds(heads: Sequence[Head]) -> str:
    """The same for people."""
    return "\n".join(line for row in kind_rows(heads) for line in _kind(row)) or "nothing is changed"


def _kind(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['kind']} ({row['risk']}): {', '.join(row['runbooks'])}"
    for word in ("changes", "proven", "undone"):
        yield _wrapped(f"  {word + ':':<9}{row[word]}", " " * 11)


def _worst(head: Head) -> str:
    risks = [KINDS[kind].risk for kind in head["actions"]]
    if not risks:
        return "changes nothing"
    worst = max(risks, key=list(type(risks[0])).index)
    return f"may change {len(risks)} thing{'s' if len(risks) > 1 else ''} if you allow it, at worst {worst}"


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
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
