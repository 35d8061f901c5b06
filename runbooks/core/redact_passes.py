"""The passes over a text, in their order, each only where an expression of RE2 says that it may find something."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
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
    """One pass. `words`, an expression, is found wherever `do` replaces something; `by_line`: what it replaces ends in the lines
    of the words; `by_form`: what it finds is a secret by its own form, not by the name that it stands under."""

    do: Callable[[str, Mark], str]
    words: str
    by_line: bool = True
    by_form: bool = False

    @cached_property
    def hint(self) -> Any:
        """`words`, compiled."""
        return _compiled(self.words)

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
    if _any_words().search(text.encode("utf-8", "surrogatepass")):
        for one in _passes():
            text = one.over(text, mark_of(one))
    return text


@cache
def _any_words() -> Any:
    return _compiled("|".join(f"(?:{one.words})" for one in _passes()))


@cache
def _passes() -> tuple[Pass, ...]:
    """Every pass, in order: forms that hold others first, bare tokens last."""
    return (
        Pass(pem, "PRIVATE KEY|Private-", by_line=False, by_form=True),
        Pass(headers, f"(?i:{HEADERS_HINT})"),
        Pass(schemes, f"(?i:{SCHEMES_HINT})", by_form=True),
        Pass(addresses, addresses_hint(), by_form=True),
        Pass(urls, "://|[?&@]|;[ ]?(?i:pwd)", by_form=True),
        Pass(written, written_hint()),
        Pass(tools, tools_hint()),
        Pass(options, f"(?i:{options_hint()})", by_line=False),
        Pass(_by_name, f"(?i:{named_hint()})", by_line=False),
        Pass(pairs, f"(?i:{pairs_hint()})", by_line=False),
        Pass(beside, f"(?i:{beside_hint()})"),
        Pass(sentences, f"(?i:{sentences_hint()})"),
        Pass(blocks, blocks_hint(), by_line=False, by_form=True),
        Pass(tokens, tokens_hint(), by_form=True),
    )


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
