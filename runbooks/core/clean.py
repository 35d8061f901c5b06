"""What of a text that was read may be seen: the first half of showing it; show.py makes each kind of output of it."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

GONE = "\ufffd"
CONTINUED = "↪ "  # a line of a command that goes on; no command begins with it
LINE_END, TAB = "⏎", "⇥"  # a line end and a tab inside a command
STACKED = 3  # combining marks on one letter; more would cover the lines around it

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_NEWLINES = re.compile("[\r\n\v\f\x85\u2028\u2029]+")
_UNUSUAL = re.compile(r"[^\n\t\x20-\x7e]+")
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters and marks that are drawn as nothing


def clean(text: str) -> str:
    """`text` without terminal codes; whatever else would not be seen becomes U+FFFD. Newlines and tabs stay."""
    text = re.sub("\r\n?|[\v\f\x85\u2028\u2029]", "\n", _ANSI.sub("", text))
    return _UNUSUAL.sub(lambda run: "".join(_seen(run[0])), text)


def _seen(text: str) -> Iterator[str]:
    stacked = 0
    for c in text:
        kind = unicodedata.category(c)
        stacked = stacked + 1 if kind in ("Mn", "Me") else 0
        if kind in ("Cc", "Cf", "Cs", "Co", "Cn") or c in _UNSEEN or _varies(c) or stacked > STACKED:
            yield GONE
        else:
            yield c


def _varies(c: str) -> bool:
    return "\ufe00" <= c <= "\ufe0f" or "\u180b" <= c <= "\u180f" or "\U000e0100" <= c <= "\U000e01ef"


def one_line(text: str, longest: int = 0) -> str:
    """`text` cleaned, on one line; cut with a mark if it has more than `longest` characters (0: never)."""
    bounded = text[: 4 * longest + 1000] if longest else text
    line = _NEWLINES.sub(" ", clean(bounded)).replace("\t", " ").strip()
    if not longest or (len(line) <= longest and len(bounded) == len(text)):
        return line
    mark = f"… [cut: {len(text):,} characters]"
    return f"{line[: max(1, longest - len(mark))].rstrip()}{mark}"


def first(lines: Iterable[Any], most: int, where: str = "the report") -> list[Any]:
    """The first `most` of these lines; where there are more, the last one says so and where they are."""
    found = list(lines)
    return found if len(found) <= most else [*found[: most - 1], f"… and {len(found) - most + 1} more: see {where}"]


def one_command(command: str) -> str:
    """A command on one line: its line ends and tabs are marks, so that what follows one is not another command."""
    text = clean(command).replace("\t", TAB).replace("\n", LINE_END)
    return GONE + text[1:] if text.startswith(CONTINUED[0]) else text


def pieces(line: str, width: int) -> Iterator[str]:
    """`line` in pieces of at most `width` columns (0: whole)."""
    begin = columns = 0
    for at, c in enumerate(line if width else ""):
        size = 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if columns + size > width:
            yield line[begin:at]
            begin, columns = at, 0
        columns += size
    yield line[begin:]
