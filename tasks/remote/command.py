"""Runs one read-only command on a host and turns its end into a reading: the one place where that is decided."""

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.redact import Redactor
from tasks.transport.base import CommandResult, Host, TransportError

T = TypeVar("T")
_EXCERPT_CHARS = 2000
_DENIED = ("permission denied", "operation not permitted", "access denied", "must be root", "a password is required")


def read(
    host: Host,
    argv: Sequence[str],
    parse: Callable[[str], T],
    *,
    redactor: Redactor,
    at: datetime,
    timeout_s: float = 20.0,
    stdin: str | None = None,
    limit_bytes: int = 1 << 20,
    ok: Callable[[CommandResult], bool] = lambda done: done.exit == 0,
    absent_if: Callable[[CommandResult], str] = lambda _: "",
    absent_if_missing: str = "",
) -> Known[T] | Absent | Unknown:
    """`parse(stdout)` of `argv` on `host`, with its source (`at`: when, UTC). The parser gets redacted text.

    absent_if: a proof, or "" ; asked before anything else. absent_if_missing: the proof that a missing tool is.
    A parser says that text makes no sense by raising one of ODD_ANSWER."""
    source = Source(command=shlex.join(redactor.argv(argv)), host=host.name, taken_at=at)
    try:
        done = host.run(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
    except TransportError as e:
        if e.reason is UnknownReason.TOOL_MISSING and absent_if_missing:
            return Absent(proof=absent_if_missing, source=source)
        return Unknown(reason=e.reason, detail=redactor.text(e.detail), source=source)
    whole = _without_cut_word if done.truncated else str
    clean = done.model_copy(update={"out": redactor.text(whole(done.out)), "err": redactor.text(whole(done.err))})
    source = source.model_copy(update={"excerpt": excerpt(clean)})
    if proof := absent_if(clean):
        return Absent(proof=proof, source=source)
    if not ok(clean):
        return Unknown(reason=_why(clean), detail=_first_words(clean), source=source)
    if clean.truncated:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"more than {limit_bytes} bytes; cut", source=source)
    return _parsed(clean, parse, source)


def _parsed(done: CommandResult, parse: Callable[[str], T], source: Source) -> Known[T] | Unknown:
    try:
        return Known(value=parse(done.out), source=source)
    except ODD_ANSWER as e:
        detail = " ".join(str(e).split())[:300] or type(e).__name__
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=detail, source=source)


def _without_cut_word(text: str) -> str:
    """Without the word that the cut at the size limit may have gone through: half a secret is not known for one."""
    return text[:-500] + re.sub(r"\S+\Z", "…", text[-500:])


def _why(done: CommandResult) -> UnknownReason:
    said = (done.err + done.out[:2000]).lower()
    return UnknownReason.DENIED if done.exit == 126 or any(words in said for words in _DENIED) else UnknownReason.FAILED


def _first_words(done: CommandResult) -> str:
    said = (done.err.strip() or done.out.strip()).splitlines()
    return f"exit {done.exit}" + (f": {said[0][:200]}" if said else ", no output")


def excerpt(done: CommandResult) -> str:
    """The beginning and the end of what a command said, error output first."""
    text = "\n".join(t for t in (done.err.strip(), done.out.strip()) if t)
    if len(text) <= _EXCERPT_CHARS:
        return text
    half = _EXCERPT_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters not shown …\n{text[-half:]}"
