"""A pattern made looser, as a fast test on the bytes of a line: its yes may be wrong, its no never is.

It is tried on the line in ASCII, with `?` for every other character, without what stands before the message. So the end
of a line and looking round are dropped, and what may match nothing is cut off both ends.
"""

import re
import re._constants as sre  # type: ignore[import-not-found]  # no public way to see a pattern's parts
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from runbooks.triage.prefixes import PREFIXES

MEMORY = 1 << 20  # bytes for what RE2 keeps of one pattern
_UNKNOWN = ord("?")
_DIGITS = frozenset(b"0123456789")
_ENDS = frozenset(b"\n")
SHAPE = bytes(ord("0") if c in _DIGITS else c for c in range(256))
_SETS = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_CAPITAL = re.compile(r"\\x(4[1-9a-f]|5[0-9a])")
_DIGIT = re.compile(r"\\x3[0-9]")
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_NOTHING = (sre.ASSERT, sre.ASSERT_NOT)


def searched(text: bytes) -> bytes:
    """The form of lines in which loose patterns are looked for: one byte for each character, prefixes off."""
    if not text.isascii():
        text = b"\n".join(map(ascii_of, text.split(b"\n")))
    return PREFIXES.sub(b"", text)


def ascii_of(line: bytes) -> bytes:
    """One byte for each character."""
    return line if line.isascii() else line.decode("utf-8", "replace").encode("ascii", "replace")


def shape(line: bytes) -> bytes:
    """The line with `0` for every digit."""
    return line.translate(SHAPE)


@lru_cache(maxsize=8192)
def loose(pattern: str) -> tuple[str, bool]:
    """The looser pattern, and whether it wants the line in lower case."""
    text = _sequence(_cut(_cut(list(parser.parse(pattern)), -1), 0))
    lower = "(?i" in pattern
    return "(?m)" + (_CAPITAL.sub(_small, text) if lower else text), lower


def compiled(loose: str) -> Any:
    """Ready to be searched for, by RE2: in time that grows with the text, whatever stands in it."""
    import re2  # not for small texts

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = MEMORY
    return re2.compile(loose.encode(), options)


def for_shapes(text: str) -> str:
    """A loose pattern that takes one digit for another."""
    return _DIGIT.sub(r"\\x30", text)


def _small(capital: "re.Match[str]") -> str:
    return rf"\x{int(capital[1], 16) + 32:02x}"


@lru_cache(maxsize=8192)
def alike_to(pattern: str) -> bytes:
    """A table for `bytes.translate`: lines that are the same after it are the same to the pattern. Digits that it treats alike are one."""
    sets = set(_digits_apart(parser.parse(pattern))) if any(map(str.isdigit, pattern)) else set()
    first: dict[tuple[bool, ...], int] = {}
    return bytes(first.setdefault(tuple(c in s for s in sets), c) if c in _DIGITS else c for c in range(256))


def minds_digits(pattern: str) -> bool:
    """Whether it may match one line and not another of the same shape."""
    return alike_to(pattern) != SHAPE


def _digits_apart(tree: Any) -> Iterator[frozenset[int]]:
    """Sets of digits that the pattern treats otherwise than the rest."""
    for op, value in tree:
        if op in (sre.LITERAL, sre.NOT_LITERAL) and value in _DIGITS:
            yield frozenset((value,))
        elif op is sre.IN and 0 < len(_DIGITS & _listed(value)) < len(_DIGITS):
            yield _DIGITS & _listed(value)
        elif op is sre.GROUPREF:
            yield from (frozenset((digit,)) for digit in _DIGITS)
        for inner in _inside(op, value):
            yield from _digits_apart(inner)


def _inside(op: Any, value: Any) -> list[Any]:
    if op is sre.BRANCH:
        return list(value[1])
    if op in (sre.SUBPATTERN, *_REPEATS):
        return [value[-1]]
    return [value[1]] if op in _NOTHING else [value] if op is sre.ATOMIC_GROUP else []


def _sequence(items: list[Any]) -> str:
    return "".join(_part(items, at) for at in range(len(items)))


def _part(items: list[Any], at: int) -> str:
    op, value = items[at]
    if op is sre.LITERAL:
        return rf"\x{_UNKNOWN if value > 127 else value:02x}"
    if op is sre.NOT_LITERAL:
        return _class([(sre.NEGATE, None), (sre.LITERAL, value)])
    if op is sre.IN:
        return _class(value)
    if op is sre.AT and value is sre.AT_BEGINNING:
        return "^"
    if op is sre.AT:
        return r"\b" if _is_edge(items, at) else ""
    if op is sre.BRANCH:
        return f"(?:{'|'.join(_sequence(list(b)) for b in value[1])})"
    if op in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
        return f"(?:{_sequence(list(value[-1] if op is sre.SUBPATTERN else value))})"
    if op in _REPEATS:
        text = _sequence(list(value[2]))
        return f"(?:{text}){{{value[0]},{'' if value[1] is sre.MAXREPEAT else value[1]}}}" if text else ""
    return "" if op in _NOTHING else "." if op is sre.ANY else ".*"


def _class(items: list[Any]) -> str:
    """The ASCII characters of the class, and `?` where it has or may have others; never the end of a line."""
    allowed = _listed(items) - _ENDS
    if items[0][0] is sre.NEGATE or any(_has_more(op, value) for op, value in items):
        allowed |= {_UNKNOWN}
    return "[" + "".join(rf"\x{code:02x}" for code in sorted(allowed)) + "]" if allowed else "(?!)"


def _listed(items: list[Any]) -> frozenset[int]:
    members = frozenset[int]().union(*(_members(op, value) for op, value in items if op is not sre.NEGATE))
    return members ^ frozenset(range(128)) if items[0][0] is sre.NEGATE else members


@lru_cache(maxsize=256)
def _members(op: Any, value: Any) -> frozenset[int]:
    if op is sre.LITERAL:
        return frozenset({value} & {*range(128)})
    if op is sre.RANGE:
        return frozenset(range(value[0], min(value[1], 127) + 1))
    return frozenset(code for code in range(128) if re.match(_SETS[value], chr(code)))


def _has_more(op: Any, value: Any) -> bool:
    return bool(op is sre.CATEGORY or (op is sre.LITERAL and value > 127) or (op is sre.RANGE and value[1] > 127))


def _cut(items: list[Any], end: int) -> list[Any]:
    """Without what may match nothing at that end: it says nothing, and would be found at every byte."""
    items = list(items)
    while items:
        op, value = items[end]
        at = len(items) - 1 if end else 0
        if op in _NOTHING or (op is sre.AT and not _holds(items, at)) or (op in _REPEATS and value[0] == 0):
            del items[end]
            continue
        if op in _REPEATS and value[0] == 1:
            items[end] = (sre.SUBPATTERN, (None, 0, 0, value[2]))
            continue
        if op in _REPEATS:
            items[end] = (op, (value[0], value[0], value[2]))
        elif op is sre.SUBPATTERN:
            items[end] = (op, (*value[:3], _cut(list(value[3]), end)))
        elif op is sre.BRANCH:
            items[end] = (op, (value[0], [_cut(list(b), end) for b in value[1]]))
        if _is_idle(*items[end]):
            del items[end]
            continue
        break
    return items


def _holds(items: list[Any], at: int) -> bool:
    return items[at][1] is sre.AT_BEGINNING or _is_edge(items, at)


def _is_idle(op: Any, value: Any) -> bool:
    if op is sre.BRANCH:
        return not all(value[1])
    return op is sre.SUBPATTERN and not value[3]


def _is_edge(items: list[Any], at: int) -> bool:
    """Whether a letter or digit of ASCII stands for certain on one side of a word's edge: then it is one here as well."""
    if items[at][1] is not sre.AT_BOUNDARY:
        return False
    before, after = items[:at], items[at + 1 :]
    return bool((before and _is_word(before[-1], -1)) or (after and _is_word(after[0], 0)))


def _is_word(item: Any, end: int) -> bool:
    """Whether every text of this part has a letter or digit of ASCII at that end."""
    op, value = item
    if op is sre.LITERAL:
        return value < 128 and (chr(value).isalnum() or value == ord("_"))
    if op is sre.IN:
        return all(o is sre.LITERAL and _is_word((o, v), end) for o, v in value)
    if op is sre.BRANCH:
        return all(b and _is_word(b[end], end) for b in value[1])
    if op is sre.SUBPATTERN:
        return bool(value[3]) and _is_word(value[3][end], end)
    if op in _REPEATS:
        return value[0] > 0 and bool(value[2]) and _is_word(value[2][end], end)
    return False
