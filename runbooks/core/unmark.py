"""A page that was made here (show.py) taken apart for a terminal: the same words without Markdown's signs."""

import html
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from runbooks.core.show import Markdown, kept

_TOKEN = re.compile(
    r"\\(?P<sign>[\\`*\[\]|~$_#+=.)-])|(?P<bold>\*\*)|`(?P<code>[^`]*)`|<(?P<url>https?://[^<>\s]+)>|(?P<entity>&#?\w+;)"
)
_HEADING = re.compile(r"^(#{1,6}) (.*)$")
_ITEM = re.compile(r"^( *)- (.*)$")
_DETAILS = re.compile(r"^<details><summary>(.*)</summary>$|^</details>$")
_RULE = re.compile(r"^\|[-|]+\|$")
_CELL_END = re.compile(r"(?<!\\)((?:\\\\)*)\|")
INDENT = "    "  # of a command


class PartKind(StrEnum):
    """What a part of a page is."""

    HEADING = "heading"
    TEXT = "text"
    ITEM = "item"
    VERBATIM = "verbatim"  # commands and readings: no line of it is broken or joined
    TABLE = "table"


class Span(NamedTuple):
    """Words of one look."""

    text: str
    bold: bool = False


Words = tuple[Span, ...]


class PagePart(NamedTuple):
    """A part of a page. A text without words is an empty line."""

    kind: PartKind
    words: Words = ()
    level: int = 0  # of a heading: how many signs; of an item: how deep
    lines: tuple[str, ...] = ()
    rows: tuple[tuple[Words, ...], ...] = ()  # the first is the table's head


def text_of(words: Words) -> str:
    """The text alone."""
    return "".join(span.text for span in words)


def blocks(page: Markdown) -> Iterator[PagePart]:
    """The page's parts, in order."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        mark = lines[at].strip()
        begin, at = at, at + 1
        if mark.startswith("```"):
            fence = mark[: len(mark) - len(mark.lstrip("`"))]
            while at < len(lines) and lines[at].strip() != fence:
                at += 1
            yield PagePart(PartKind.VERBATIM, lines=tuple(lines[begin + 1 : at]))
            at += 1
        elif mark.startswith("|"):
            while at < len(lines) and lines[at].startswith("|"):
                at += 1
            rows = (line for line in lines[begin:at] if not _RULE.match(line))
            yield PagePart(PartKind.TABLE, rows=tuple(_cells(row) for row in rows))
        else:
            yield from _line(lines[begin])


def _line(line: str) -> Iterator[PagePart]:
    if heading := _HEADING.match(line):
        yield PagePart(PartKind.HEADING, _words(heading[2]), len(heading[1]))
    elif details := _DETAILS.match(line.strip()):
        if details[1]:
            yield PagePart(PartKind.TEXT, _words(details[1]))
    elif item := _ITEM.match(line):
        yield PagePart(PartKind.ITEM, _words(item[2]), len(item[1]) // 2)
    else:
        yield PagePart(PartKind.TEXT, _words(line))


def _cells(row: str) -> tuple[Words, ...]:
    parts = _CELL_END.sub(lambda m: f"{m[1]}\n", row.strip()[1:]).split("\n")
    return tuple(_words(part.strip()) for part in parts[:-1])


def _words(text: str) -> Words:
    """The words as they were before show.py escaped them; bold is ours alone."""
    out: list[Span] = []
    bold, at = False, 0
    for found in _TOKEN.finditer(text):
        plain = html.unescape(found[0]) if found["entity"] else found["sign"] or found["code"] or found["url"] or ""
        out += [Span(text[at : found.start()], bold), Span(plain, bold)]
        bold, at = bold != bool(found["bold"]), found.end()
    return tuple(span for span in (*out, Span(text[at:], bold)) if span.text)


def plain(page: Markdown) -> str:
    """Its text: headings underlined, tables in columns, commands indented and exactly as they are pasted, nothing escaped."""
    return "\n".join(line for block in blocks(page) for line in _plain(block)).strip("\n") + "\n"


def _plain(block: PagePart) -> Iterator[str]:
    text = text_of(block.words)
    if block.kind is PartKind.VERBATIM:
        yield from (f"{INDENT}{line}" for line in block.lines)
    elif block.kind is PartKind.TABLE:
        yield from columns([[text_of(cell) for cell in row] for row in block.rows])
    elif block.kind is PartKind.ITEM:
        yield f"{'  ' * block.level}- {text}"
    else:
        yield text
        if block.kind is PartKind.HEADING:
            yield "-" * min(len(text), 78)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line a row, its cells below each other; the last cell is as long as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()


def without_folds(page: Markdown) -> Markdown:
    """A report without what is folded away in it, which its file holds; what each fold is called stays."""
    out: list[str] = []
    deep, last = 0, 0  # how many lines stood there after the last fold
    for line, fenced in by_fence(page):
        fold = None if fenced else _DETAILS.match(line.strip())
        if fold and fold[1] and not deep:
            if not any(out[last:]):
                del out[last:]  # folds stand below each other
            out.append(f"- {fold[1]} (in the report's file)")
            last = len(out)
        elif not fold and not deep:
            out.append(line)
        if fold:
            deep += 1 if fold[1] else -1
    return kept("\n".join(out).rstrip("\n") + "\n")


def by_fence(page: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it stands in a fenced block, whose first line counts and whose last one does not."""
    fence = ""
    for line in page.splitlines():
        mark = line.strip()
        if fence and mark == fence:
            fence = ""
        elif not fence and mark.startswith("```"):
            fence = mark[: len(mark) - len(mark.lstrip("`"))]
        yield line, bool(fence)
