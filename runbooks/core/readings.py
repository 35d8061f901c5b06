"""Finds the readings inside a report's evidence, so that each can be shown with its command, host, time and excerpt."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from runbooks.core.base import Frozen

LONGEST = 150  # design: characters of a line of raw output in the Markdown; the JSON has all
LINES, LAST = 40, 25  # design: lines of one reading, and how many of them are its last ones


READ, NOT_THERE, NOT_READ = "read", "not there", "NOT READ"


class Shown(Frozen):
    """One reading as the report shows it."""

    name: str
    status: str
    command: str = ""
    host: str = ""
    taken_at: str = ""
    note: str = ""  # proof of absence, or why it is unknown
    text: str = ""  # excerpt, else the value as JSON, shortened


def readings(evidence: dict[str, Any]) -> Iterator[Shown]:
    """Every reading in `evidence`: those that failed first, then in its order. Values without a source are shown as they are."""
    found = [shown for name, value in evidence.items() for shown in _walk(name, value)]
    yield from sorted(found, key=lambda shown: shown.status != NOT_READ)


def in_numbers(found: Sequence[Shown]) -> str:
    """How many there are of each status: "1 NOT READ, 1 not there, 12 read"."""
    counts = {status: sum(shown.status == status for shown in found) for status in (NOT_READ, NOT_THERE, READ)}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _walk(name: str, value: Any) -> Iterator[Shown]:
    if _is_reading(value):
        yield _show(name, value)
        yield from _inside(name, value.get("value"))
    else:
        yield from _inside(name, value)


def _inside(name: str, value: Any) -> Iterator[Shown]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _walk(f"{name}[{i}]", item)


def _is_reading(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    need = {"known": "value", "absent": "proof", "unknown": "reason"}.get(str(value.get("kind")))
    return need is not None and need in value


def _show(name: str, reading: dict[str, Any]) -> Shown:
    source = reading.get("source") or {}
    status = {"known": READ, "absent": NOT_THERE}.get(reading["kind"], NOT_READ)
    return Shown(
        name=name,
        status=status,
        command=str(source.get("command", "")),
        host=str(source.get("host", "")),
        taken_at=str(source.get("taken_at") or ""),
        note=_note(reading),
        text=_cut(_indented(str(source.get("excerpt") or "")) or _value(reading)),
    )


def _note(reading: dict[str, Any]) -> str:
    if reading["kind"] == "absent":
        return str(reading["proof"])
    if reading["kind"] == "unknown":
        detail = reading.get("detail")
        return f"{reading['reason']}: {detail}" if detail else str(reading["reason"])
    return ""


def _value(reading: dict[str, Any]) -> str:
    if reading["kind"] != "known":
        return ""
    return json.dumps(_said(reading["value"]), ensure_ascii=False, default=str, indent=1)


def _said(value: Any) -> Any:
    """Without the fields that say nothing: null, and an empty text, list or table."""
    if isinstance(value, dict):
        parts = {k: _said(v) for k, v in value.items()}
        return {k: v for k, v in parts.items() if v not in (None, "", [], {})}
    return [_said(v) for v in value] if isinstance(value, list | tuple) else value


def _indented(excerpt: str) -> str:
    """An answer in JSON with a line for each field; any other text as it is."""
    if not excerpt.lstrip().startswith(("{", "[")):
        return excerpt
    try:
        return json.dumps(_said(json.loads(excerpt)), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return excerpt


def _cut(text: str) -> str:
    """The first and the last lines, none of them long: what a program says last often matters most."""
    lines = [_short(line) for line in text.splitlines()]
    if len(lines) > LINES:
        left = len(lines) - LINES
        lines = [*lines[: LINES - LAST], f"… {left} more lines in the JSON", *lines[-LAST:]]
    return "\n".join(lines)


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}… {len(line) - LONGEST} more characters in the JSON"
