"""The passes over a text, in their order, each only where an expression of RE2 says that it may find something."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from runbooks.core.redact_named import looks_like_environment, named, named_hint, options, options_hint
from runbooks.core.redact_sentences import beside, beside_hint, pairs, pairs_hint, sentences, sentences_hint
from runbooks.core.redact_text import HEADERS_HINT, PLACEHOLDER, SCHEMES_HINT, Mark, headers, pem, schemes, urls
from runbooks.core.redact_tokens import (
    addresses,
    addresses_hint,
    blocks,
    blocks_hint,
    tokens,
    tokens_hint,
    written,
    written_hint,
)
from runbooks.core.redact_tools import tools, tools_hint

_SMALL = 4096  # a text that is not worth being cut into lines
_MEMORY = 64 << 20


@dataclass(frozen=True)
class Pass:
    """One pass. `hint` is found wherever `do` replaces something; `by_line`: what it replaces ends in the hint's lines;
    `by_form`: what it finds is a secret by its own form, not by the name that it stands under."""

    do: Callable[[str, Mark], str]
    hint: Any
    by_line: bool = True
    by_form: bool = False

    def over(self, text: str, mark: Mark) -> str:
        """`text` after this pass."""
        raw = text.encode("utf-8", "surrogatepass")
        if not self.by_line or len(raw) < _SMALL:
            return between(text, self.do, mark) if self.hint.search(raw) else text
        out, at = [], 0
        for start, end in _lines(raw, self.hint):
            part = raw[start:end].decode("utf-8", "surrogatepass")
            out += [raw[at:start], between(part, self.do, mark).encode("utf-8", "surrogatepass")]
            at = end
        return b"".join([*out, raw[at:]]).decode("utf-8", "surrogatepass") if out else text


def between(text: str, one: Callable[[str, Mark], str], mark: Mark) -> str:
    """Applies a pass to what lies between placeholders that are already there.

    What follows one is taken for the rest of a word, as it was before the placeholder stood there."""
    if "<secret:" not in text:
        return one(text, mark)
    out, at = [], 0
    for found in PLACEHOLDER.finditer(text):
        out += [_after(text[at : found.start()], one, mark) if at else one(text[: found.start()], mark), found[0]]
        at = found.end()
    return "".join([*out, _after(text[at:], one, mark)])


def over_all(text: str, mark_of: Callable[[Pass], Mark]) -> str:
    """`text` after every pass, each with the mark that `mark_of` gives it. Most texts need none: one search says so."""
    hint, every = _passes()
    if hint.search(text.encode("utf-8", "surrogatepass")):
        for one in every:
            text = one.over(text, mark_of(one))
    return text


@cache
def _passes() -> tuple[Any, tuple[Pass, ...]]:
    """What is found wherever any pass may find something, and every pass in order: forms that hold others first, bare tokens last."""
    rows: tuple[tuple[str, Callable[[str, Mark], str], bool, bool], ...] = (  # hint, do, by line, by form
        ("PRIVATE KEY|Private-", pem, False, True),
        (f"(?i:{HEADERS_HINT})", headers, True, False),
        (f"(?i:{SCHEMES_HINT})", schemes, True, True),
        (addresses_hint(), addresses, True, True),
        ("://|[?&@]|;[ ]?(?i:pwd)", urls, True, True),
        (written_hint(), written, True, False),
        (tools_hint(), tools, True, False),
        (f"(?i:{options_hint()})", options, False, False),
        (f"(?i:{named_hint()})", _by_name, False, False),
        (f"(?i:{pairs_hint()})", pairs, False, False),
        (f"(?i:{beside_hint()})", beside, True, False),
        (f"(?i:{sentences_hint()})", sentences, True, False),
        (blocks_hint(), blocks, False, True),
        (tokens_hint(), tokens, True, True),
    )
    whole = "|".join(f"(?:{hint})" for hint, *_ in rows)
    return _compiled(whole), tuple(Pass(do, _compiled(hint), by_line, by_form) for hint, do, by_line, by_form in rows)


def _compiled(hint: str) -> Any:
    options_ = re2.Options()
    options_.encoding = re2.Options.Encoding.LATIN1
    options_.max_mem = _MEMORY
    options_.log_errors = False
    return re2.compile(hint.encode(), options_)


def _by_name(text: str, mark: Mark) -> str:
    return named(text, mark, looks_like_environment(text))


def _after(text: str, one: Callable[[str, Mark], str], mark: Mark) -> str:
    done = one("_" + text, mark)
    return done[1:] if done.startswith("_") else one(text, mark)


def _lines(raw: bytes, hint: Any) -> Iterator[tuple[int, int]]:
    """Where the whole lines around the hints begin and end; neighbours in one."""
    start = end = -1
    for m in hint.finditer(raw):
        if m.end() <= end:
            continue
        stop = raw.find(b"\n", m.end())
        stop = len(raw) if stop < 0 else stop
        if end >= 0 and m.start() <= end + 1:
            end = stop
            continue
        if end >= 0:
            yield start, end
        start, end = raw.rfind(b"\n", 0, m.start()) + 1, stop
    if end >= 0:
        yield start, end
