"""Another program's answer with one thing wrong at one place: missing, null, of another type, or empty. Exhaustive, nothing sampled."""

import copy
import json
import xml.etree.ElementTree as Tree
from collections.abc import Iterator
from typing import Any

GONE: Any = object()


def _wrong(value: Any) -> Iterator[tuple[str, Any]]:
    """What may stand there instead."""
    yield "missing", GONE
    if value is not None:
        yield "null", None
    if isinstance(value, bool):
        yield "text", str(value).lower()
    elif isinstance(value, int | float):
        yield "text", f"{value} of it"
    elif isinstance(value, str):
        yield "number", 7
        yield "list", [value]
    elif isinstance(value, list):
        yield "mapping", {"a": 1}
        yield "text", "text"
        if value:
            yield "empty", []
    elif isinstance(value, dict):
        yield "list", ["a"]
        yield "text", "text"
        if value:
            yield "empty", {}
    else:
        yield "text", "text"
        yield "mapping", {"a": 1}


def changed(value: Any) -> Iterator[tuple[str, Any]]:
    """(what is wrong where, the whole with that), for every place of a JSON value; the whole itself is never missing."""
    for what, new in _wrong(value):
        if new is not GONE:
            yield f"all of it: {what}", new
    yield from _inside(value)


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    names = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for name in names:
        for what, new in _wrong(value[name]):
            yield f"{name}: {what}", _with(value, name, new)
        for where, new in _inside(value[name]):
            yield f"{name}.{where}", _with(value, name, new)


def _with(value: Any, name: Any, new: Any) -> Any:
    if isinstance(value, dict):
        return {k: new if k == name else v for k, v in value.items() if not (k == name and new is GONE)}
    return [new if i == name else v for i, v in enumerate(value) if not (i == name and new is GONE)]


def changed_json(text: str) -> Iterator[tuple[str, str]]:
    """The same of a JSON text, and the text cut in the middle."""
    for what, value in changed(json.loads(text)):
        yield what, json.dumps(value)
    yield "cut", text[: len(text) // 2]


def changed_text(text: str) -> Iterator[tuple[str, str]]:
    """A table or log with one line or one cell wrong; cells are what stands between commas, or else between blanks."""
    yield "nothing", ""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        for what, new in _changed_line(line):
            yield f"line {i}, {what}", "\n".join((*lines[:i], *new, *lines[i + 1 :])) + "\n"


def _changed_line(line: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(what is wrong, what stands there instead: no line or one)."""
    yield "missing", ()
    yield "cut", (line[: len(line) // 2],)
    mark = ", " if ", " in line else " "
    cells = line.split(mark)
    for k, cell in enumerate(cells):
        for new in ("", "[N/A]", "odd") if cell.strip() else ():
            yield f"cell {k}: {new!r}", (mark.join((*cells[:k], new, *cells[k + 1 :])),)
    if mark == ", ":
        yield "last cell missing", (mark.join(cells[:-1]),)


def changed_xml(text: str) -> Iterator[tuple[str, str]]:
    """A document with one element missing, empty or odd."""
    whole = Tree.fromstring(text[text.index("<nvidia_smi_log>") :])  # noqa: S314 - a recording of ours
    for i, (parent, child) in enumerate([(p, c) for p in whole.iter() for c in p]):
        for what in ("missing", "empty", "odd"):
            other = copy.deepcopy(whole)
            held, gone = [(p, c) for p in other.iter() for c in p][i]
            if what == "missing":
                held.remove(gone)
            else:
                gone.clear()
                gone.text = "odd" if what == "odd" else None
            yield f"{parent.tag}/{child.tag}: {what}", '<?xml version="1.0" ?>' + Tree.tostring(other, encoding="unicode")
