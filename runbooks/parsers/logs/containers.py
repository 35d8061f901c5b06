"""The container of a log: plain lines, JSON lines, or an export that is one JSON list. Pure."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

LONGEST = 16_384  # characters of a line that are kept
LONGEST_JSON = 1 << 20  # characters of a line that is read as JSON
FEW = 3  # lines of a file that is no log but an error text
ABOUT_1000 = 950  # entries from which an export has probably ended at the platform's limit


class Held(NamedTuple):
    """Entries of a text: dictionaries of what was JSON, else lines. `problem`: why it is no log at all."""

    entries: "Iterator[dict[str, Any] | str]"
    export: int = 0  # entries of a JSON list, or of JSON lines with the platform's fields
    problem: str = ""


def held(text: str, name: str) -> Held:
    """What a text holds. `name` is the file's: what calls itself JSON and is a short plain text is an error message."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("["):
        found = _json(start)
        if isinstance(found, list) and all(isinstance(x, dict | str) for x in found):
            return Held(iter(found), len(found))
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if name.endswith((".json", ".jsonl", ".ndjson")) and start:
        full = [x for x in lines if x.strip()]
        if len(full) <= FEW and not any(isinstance(entry(x), dict) for x in full):
            return Held(iter(()), 0, f"it holds no log but a message: {full[0].strip()[:200]}")
        if isinstance(found := _json(start), dict) and len(full) > 1:
            return Held(iter((found,)))
        sample = [x for x in map(entry, full[:5]) if isinstance(x, dict)]
        export = len(full) if any("timestamp" in x and "message" in x for x in sample) else 0
        return Held((entry(x) for x in lines), export)
    return Held(entry(x) for x in lines)


def entry(line: str) -> dict[str, Any] | str:
    """A line as a dictionary where it is one in JSON, else itself, without its end and cut where it is endless."""
    line = line.rstrip("\r\n")
    if line.startswith("{") and len(line) <= LONGEST_JSON:
        found = _json(line)
        if isinstance(found, dict):
            return found
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}… [cut: {len(line):,} characters]"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def field_of(data: dict[str, Any], paths: tuple[str, ...]) -> Any:
    """The first of these fields that is there and not empty. `a.b` is a field of that name, else b inside a."""
    for path in paths:
        found: Any = data.get(path)
        if found is None and "." in path:
            outer, _, inner = path.partition(".")
            below = as_fields(data.get(outer))
            found = below.get(inner)
        if found is not None and found != "":
            return found
    return None


def as_fields(attributes: Any) -> dict[str, Any]:
    """Attributes as a dictionary; the platform's API gives a list of {key, value}, each value again as JSON."""
    if isinstance(attributes, dict):
        return attributes
    if not isinstance(attributes, list):
        return {}
    pairs = [a for a in attributes if isinstance(a, dict) and isinstance(a.get("key"), str)]
    return {a["key"]: _plain(a.get("value")) for a in pairs}


def _plain(value: Any) -> Any:
    inner = _json(value) if isinstance(value, str) and value[:1] == '"' else None
    return inner if isinstance(inner, str) else value
