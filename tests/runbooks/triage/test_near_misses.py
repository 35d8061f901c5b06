"""A counter-example proves something only where it could have matched: it shares a word with the pattern, or most of the example."""

import re
import re._constants as sre  # type: ignore[import-not-found]  # no public way to see a pattern's parts
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from typing import Any

from runbooks.core.knowledge import Signature
from runbooks.triage.load import Rule, library

ACTS = re.compile(
    r"(?i)\b(?:kill|restart|recreat\w*|delet\w*|remov\w*|clear\w*|reset|reboot|stop|terminat\w*|chmod|chown|u?n?mount|drain|replace|free)\b"
)
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
MOST_FAR = 10  # may only go down


def words(pattern: str) -> set[str]:
    """Words (three letters and more, small) that the pattern itself is made of."""
    return {w for text in _texts(parser.parse(pattern)) for w in re.findall(r"[a-z]{3,}", text.lower())}


def _texts(tree: Any) -> Iterator[str]:
    run = ""
    for op, value in tree:
        if op is sre.LITERAL:
            run += chr(value)
            continue
        yield run
        run = ""
        inner = value[3] if op is sre.SUBPATTERN else value[2] if op in REPEATS else None
        for part in value[1] if op is sre.BRANCH else [inner] if inner is not None else []:
            yield from _texts(part)
    yield run


def is_near(signature: Signature) -> bool:
    """Whether a careful person could take the counter-example for a match."""
    counter, example = signature.counter_example.lower(), signature.example.lower()
    if any(word in counter for word in words(signature.pattern)):
        return True
    told, other = set(re.findall(r"\w+", example)), set(re.findall(r"\w+", counter))
    return len(told & other) * 2 >= len(told)


def far() -> list[tuple[Rule, Signature]]:
    """Signatures whose counter-example has nothing to do with them."""
    every = ((k, s) for k in library().causes for s in k.cause.signatures)
    return [(k, s) for k, s in every if s.pattern and not is_near(s)]


def test_causes_whose_remedy_ends_or_removes_something_have_near_misses() -> None:
    acting = [(k.slug, s.pattern) for k, s in far() if k.cause.runbook and ACTS.search(k.cause.remedy)]
    assert acting == []


def test_far_misses_grow_fewer() -> None:
    assert len(far()) <= MOST_FAR
