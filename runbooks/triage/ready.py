"""Patterns as triage tries them: made looser, and which digits they tell apart. Worked out once for all that is known."""

import json
from functools import lru_cache

from runbooks.triage.cache import digest_of, keep, kept
from runbooks.triage.load import library
from runbooks.triage.loose import alike_to, loose

FORMAT = 1  # of the cache file
_Kept = dict[str, tuple[str, bool, str]]


def loose_of(pattern: str) -> tuple[str, bool]:
    """The looser pattern, and whether it wants the line in lower case."""
    known = _all().get(pattern)
    return (known[0], known[1]) if known else loose(pattern)


def alike_of(pattern: str) -> bytes:
    """A table for `bytes.translate` after which lines that are the same to the pattern are the same."""
    known = _all().get(pattern)
    return _table(known[2]) if known else alike_to(pattern)


@lru_cache(maxsize=1)
def _all() -> _Kept:
    patterns = tuple(library().literals)
    digest = digest_of((FORMAT, patterns))
    if (data := kept("loose", digest)) is not None:
        known: _Kept = json.loads(data)
        return known
    made = {p: (*loose(p), alike_to(p)[48:58].decode()) for p in patterns}
    keep("loose", digest, json.dumps(made).encode())
    return made


@lru_cache(maxsize=1024)
def _table(digits: str) -> bytes:
    return bytes.maketrans(b"0123456789", digits.encode())
