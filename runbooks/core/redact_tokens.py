"""The passes that find secrets by their own first letters, and addresses whose path is one. Forms: secret_shapes.yaml."""

import re
from functools import cache

from runbooks.core.redact_text import Mark
from runbooks.core.secret_shapes import Shape, shapes
from runbooks.core.secret_values import REFERENCE, is_algorithm, is_prose

_BEHIND_THE_ID = r"(?:[\s:,;|\"']{1,8}[A-Za-z0-9/+]{40})"
_SIGN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[(){|]")
_COUNT = re.compile(r"\{(\d+)")
_ENOUGH = 4  # characters of a long repetition that the hint looks at
_AWS = re.compile(
    r"(?<![A-Za-z0-9_])((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])"
    r"(?:([\s:,;|\"']{1,8})([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+]))?"
)
_AHEAD = re.compile(r"\(\?[=!](?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)")
_REST = r"([^\s\"'`<>\\|)\]},]+)"


def tokens_hint() -> str:
    """An expression of RE2 that is found in every text with something for `tokens`, in its line."""
    return f"(?:^|[^A-Za-z0-9_])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_BEHIND_THE_ID}?|{_hint(_of(False))}"


def blocks_hint() -> str:
    """The same for `blocks`."""
    return _hint(_of(True))


def addresses_hint() -> str:
    """The same for `addresses`."""
    return _hint(shapes().addresses)


def written_hint() -> str:
    """The same for `written`."""
    return "|".join(f"(?:{row.hint})" for row in shapes().written)


def written(text: str, mark: Mark) -> str:
    """Lines of password files, consoles and configurations that hold a secret at a fixed place."""
    for name, pattern in _written():
        text = pattern.sub(lambda m, name=name: _marked(m, name, mark), text)  # type: ignore[misc]
    return text


def _marked(m: re.Match[str], name: str, mark: Mark) -> str:
    secret = m["secret"]
    known = is_prose(secret) or REFERENCE.fullmatch(secret) or secret.startswith("<secret:")
    small = not any(map(str.isalpha, secret)) and len(secret) < 6  # a count
    if known or small or is_algorithm(secret) or (secret.isupper() and secret.isalpha()):
        return m[0]
    at = m.start("secret") - m.start()
    return m[0][:at] + mark(name, secret) + m[0][at + len(secret) :]


@cache
def _written() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((row.name, re.compile(row.pattern, re.ASCII)) for row in shapes().written)


def tokens(text: str, mark: Mark) -> str:
    """Tokens that show by their own first letters whose they are."""

    def aws(m: re.Match[str]) -> str:
        tail = "" if not m[3] else m[2] + (m[3] if re.fullmatch("[0-9a-f]{40}", m[3]) else mark("aws-secret", m[3]))
        return mark("aws-key-id", m[1]) + tail

    return blocks(_AWS.sub(aws, text), mark, False)


def blocks(text: str, mark: Mark, lines: bool = True) -> str:
    """The same for what goes on over several lines."""
    pattern, names = _tokens(lines)
    return pattern.sub(lambda m: mark(names[m.lastgroup or ""], m[0]), text)


def addresses(text: str, mark: Mark) -> str:
    """The path of addresses that are a secret as a whole: webhooks, channels."""
    pattern, names = _addresses()

    def path(m: re.Match[str]) -> str:
        rest = m[m.re.groups]
        return m[0][: len(m[0]) - len(rest)] + mark(names[_group(m)], rest)

    return pattern.sub(path, text)


def _group(m: re.Match[str]) -> str:
    return next(name for name, found in m.groupdict().items() if found)


def _of(lines: bool) -> tuple[Shape, ...]:
    return tuple(row for row in shapes().tokens if row.lines == lines)


def _hint(rows: tuple[Shape, ...]) -> str:
    """What every pattern begins with, as RE2 takes it."""
    bare = [row.hint or "|".join(map(_beginning, _alternatives(_AHEAD.sub("", row.pattern)))) for row in rows]
    return "|".join(bare)


def _alternatives(pattern: str) -> list[str]:
    """The pattern's branches outside all brackets."""
    found, at, depth = [], 0, 0
    for m in _SIGN.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(m[0], 0)
        if m[0] == "|" and not depth:
            found.append(pattern[at : m.start()])
            at = m.end()
    return [*found, pattern[at:]]


def _beginning(branch: str) -> str:
    """The branch up to its first long repetition, of which a few characters are enough."""
    depth = 0
    for m in _SIGN.finditer(branch):
        depth += {"(": 1, ")": -1}.get(m[0], 0)
        count = _COUNT.match(branch, m.start())
        if not depth and count and int(count[1]) > _ENOUGH:
            return branch[: m.start()] + f"{{{_ENOUGH}}}"
    return branch


def _union(rows: tuple[Shape, ...]) -> tuple[str, dict[str, str]]:
    names = {f"n{i}": row.name for i, row in enumerate(rows)}
    return "|".join(f"(?P<n{i}>{row.pattern})" for i, row in enumerate(rows)), names


@cache
def _tokens(lines: bool) -> tuple[re.Pattern[str], dict[str, str]]:
    union, names = _union(_of(lines))
    return re.compile(f"(?<![A-Za-z0-9_])(?:{union})", re.ASCII), names


@cache
def _addresses() -> tuple[re.Pattern[str], dict[str, str]]:
    union, names = _union(shapes().addresses)
    return re.compile(f"(?:{union}){_REST}", re.ASCII), names
