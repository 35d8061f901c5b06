"""Finds the readings inside a report's evidence, so that each can be shown with its command, host, time and excerpt."""

import json
from collections.abc import Iterator
from typing import Any

from runbooks.core.base import Frozen

LONGEST = 4000  # characters of one reading in the Markdown; the JSON has all


class Shown(Frozen):
    """One reading as the report shows it."""

    name: str
    status: str  # read | not there | NOT READ
    command: str = ""
    host: str = ""
    taken_at: str = ""
    note: str = ""  # proof of absence, or why it is unknown
    text: str = ""  # excerpt, else the value as JSON


def readings(evidence: dict[str, Any]) -> Iterator[Shown]:
    """Every reading in `evidence`, in its order; unknown ones too. Values without a source are shown as they are."""
    for name, value in evidence.items():
        yield from _walk(name, value)


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
    status = {"known": "read", "absent": "not there"}.get(reading["kind"], "NOT READ")
    return Shown(
        name=name,
        status=status,
        command=str(source.get("command", "")),
        host=str(source.get("host", "")),
        taken_at=str(source.get("taken_at") or ""),
        note=_note(reading),
        text=_cut(str(source.get("excerpt") or "") or _value(reading)),
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
    return json.dumps(reading["value"], ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… {len(text) - LONGEST} more characters in the JSON"
