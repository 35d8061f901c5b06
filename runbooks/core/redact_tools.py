"""Secrets that commands take under short options, as secret_shapes.yaml lists them: in text, and in a command line's words."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from runbooks.core.redact_text import Mark
from runbooks.core.secret_shapes import ToolOption, shapes
from runbooks.core.secret_values import REFERENCE, is_prose

_SEP = r"[ \t\0\"',\\]{1,12}"
_WORD = r"[^\s\0\"'`\\,;|&<>]+"
_MOST = 300  # characters between command and option


def tools_hint() -> str:
    """An expression of RE2 that is found in every text with something for `tools`."""
    names = "|".join(sorted({re.escape(tool) for row in shapes().tools for tool in row.tools}))
    return rf"(?:^|[^\w.\-])(?:{names})[ \t\x00\"',\\]|{'|'.join(map(re.escape, shapes().piped))}"


def tools(text: str, mark: Mark) -> str:
    """`mysql -pX`, `docker login -p X`, `curl -u user:X`, as a shell, a list or /proc writes them."""
    text = _piped().sub(lambda m: m[0] if REFERENCE.fullmatch(m[2]) else m[1] + mark("password", m[2]) + m[3], text)
    for row, pattern in _patterns():
        if any(tool in text for tool in row.tools):
            text = pattern.sub(lambda m, row=row: _replaced(m, row, mark), text)  # type: ignore[misc]
    return text


def tool_words(argv: Sequence[str]) -> dict[int, tuple[int, ToolOption]]:
    """Which words of a command line hold such a secret: index -> (where in that word the secret begins, its row)."""
    found: dict[int, tuple[int, ToolOption]] = {}
    for start, row in _commands(argv):
        if row.after and row.after not in argv[start:]:
            continue
        if not row.options:
            first = argv.index(row.after, start) if row.after else start
            found[next((i for i in range(first + 1, len(argv)) if not argv[i].startswith("-")), len(argv))] = (0, row)
        for i in range(start + 1, len(argv)):
            word, at = argv[i], i + 1 + row.skip
            if word in row.options and row.attached != "only" and at < len(argv):
                found.setdefault(at, (0, row))
            elif row.attached and (size := _attached(word, row)):
                found.setdefault(i, (size, row))
    return found


def secret_part(value: str, row: ToolOption) -> tuple[str, str]:
    """(what may be shown, what is secret) of an option's value."""
    user, sign, secret = value.partition(row.pair) if row.pair else ("", "", value)
    if (row.pair and not sign) or REFERENCE.fullmatch(secret) or secret.startswith("-") or is_prose(secret):
        return value, ""
    return (user + sign, secret) if not row.form or re.fullmatch(row.form, secret) else (value, "")


def _attached(word: str, row: ToolOption) -> int:
    """The length of the option that the word begins with, if something follows it."""
    return next((len(o) for o in row.options if word.startswith(o) and len(word) > len(o)), 0)


def _commands(argv: Sequence[str]) -> Iterator[tuple[int, ToolOption]]:
    for i, word in enumerate(argv):
        name = word.rsplit("/", 1)[-1]
        yield from ((i, row) for row in shapes().tools if name in row.tools)


def _replaced(m: re.Match[str], row: ToolOption, mark: Mark) -> str:
    shown, secret = secret_part(m["value"], row)
    if not secret:
        return m[0]
    at = m.start("value") - m.start() + len(shown)
    return m[0][:at] + mark(row.tools[0] if len(row.tools) == 1 else "password", secret) + m[0][at + len(secret) :]


@cache
def _piped() -> re.Pattern[str]:
    """`echo X | docker login --password-stdin`."""
    readers = "|".join(map(re.escape, shapes().piped))
    return re.compile(
        rf"(\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)?[\"']?)([^\s\"'|]{{1,200}})([\"']?[ \t]*\|[^\n|]{{0,160}}?(?:{readers}))"
    )


@cache
def _patterns() -> tuple[tuple[ToolOption, re.Pattern[str]], ...]:
    return tuple((row, _pattern(row)) for row in shapes().tools)


def _pattern(row: ToolOption) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(row.tools, key=len, reverse=True)))
    after = rf"(?>[^\n|;]{{0,120}}?{_SEP}{re.escape(row.after)}(?![\w\-]))" if row.after else ""
    gap = {"": rf"(?:{_SEP}|=)", "too": rf"(?:{_SEP}|=|)", "only": ""}[row.attached]
    skip = rf"(?:{_WORD}{_SEP}){{{row.skip}}}"
    quoted = r"(?:\\{0,4}[\"'])?"
    value = rf"(?P<value>(?<=[\"'])[^\"'\n\0,\s][^\"'\n\0]*|(?!,){_WORD.replace(',', '')})"
    options = "|".join(map(re.escape, sorted(row.options, key=len, reverse=True)))
    body = rf"[^\n|;]{{0,{_MOST}}}?{_SEP}(?:{options})(?![\w\-]){gap}"
    if not row.options:
        body = rf"{_SEP}(?:-{_WORD}{_SEP}){{0,20}}+(?!-)"
    if row.attached:
        body = body.replace(r"(?![\w\-])", "")
    return re.compile(rf"(?<![\w.\-])(?:{names})(?![\w\-]){after}{body}{skip}{quoted}{value}", re.ASCII)
