"""What text a regular expression cannot match without: what is searched for first, in whole blocks at once."""

import re._constants as sre  # type: ignore[import-not-found]  # no public way to see a pattern's parts
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable
from typing import Any

LOWER = bytes(c + 32 if 65 <= c <= 90 else c for c in range(256))
DIGITS = b"0123456789"
SHORTEST = 2
AND = b"\0"
MOST_AND = 4
MOST_PAIRS = 80


def fold(text: bytes) -> bytes:
    """Lower case (ASCII) without digits: the form in which blocks are searched and lines compared."""
    return text.translate(LOWER, DIGITS)


def required(pattern: str) -> tuple[bytes, ...]:
    """Folded texts of which at least one stands in every line that `pattern` matches; empty: nothing is certain.

    A text with `AND` in it is several, all of which stand in the line.
    """
    best = _best(parser.parse(pattern), fold)
    return tuple(sorted(set(best))) if _worth(best) >= SHORTEST else ()


def _worth(options: list[bytes]) -> int:
    return min((len(o.split(AND)[0]) for o in options), default=0)


def _best(tree: Any, shape: Callable[[bytes], bytes]) -> list[bytes]:
    """The any-of list with the longest shortest member among those that the sequence requires."""
    found: list[list[bytes]] = []
    run: list[str] = []

    def close() -> None:
        text = shape("".join(run).encode())
        if text:
            found.append([text])
        run.clear()

    for op, value in tree:
        if op is sre.LITERAL:
            run.append(chr(value))
            continue
        if op is sre.AT:
            continue
        if op is sre.SUBPATTERN and _plain(value[3]):
            run.extend(_plain(value[3]))
            continue
        close()
        found.extend(_inner(op, value, shape))
    close()
    best = max(found, key=_worth, default=[])
    sure = [options[0] for options in found if len(options) == 1 and options is not best]
    also = max((o for o in found if len(o) > 1 and o is not best), key=_worth, default=[])
    if not also or len(best) * len(also) > MOST_PAIRS:
        return [_all_of([option, *sure]) for option in best]
    return [_all_of([one, other, *sure]) for one in best for other in also]


def _all_of(options: list[bytes]) -> bytes:
    """Longest first: that one is searched for."""
    parts = sorted({p for o in options for p in o.split(AND)}, key=lambda p: (-len(p), p))
    return AND.join(parts[:MOST_AND])


def _plain(tree: Any) -> str:
    """The text of a group that is nothing but text; empty otherwise."""
    return "".join(chr(v) for _, v in tree) if all(op is sre.LITERAL for op, _ in tree) else ""


def _inner(op: Any, value: Any, shape: Callable[[bytes], bytes]) -> list[list[bytes]]:
    if op is sre.SUBPATTERN:
        return _listed(_best(value[3], shape))
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and value[0] >= 1:
        return _listed(_best(value[2], shape))
    if op is sre.ATOMIC_GROUP:
        return _listed(_best(value, shape))
    if op is sre.BRANCH:
        branches = [_best(b, shape) for b in value[1]]
        return [[o for b in branches for o in b]] if all(branches) else []
    return []


def _listed(options: list[bytes]) -> list[list[bytes]]:
    return [options] if options else []
