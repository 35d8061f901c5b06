"""The passes that find secrets by the name they stand under: options, variables, fields of JSON and YAML."""

import re

from runbooks.core.redact_text import Mark
from runbooks.core.secret_names import is_address, is_secret_name, name_hint, secret_words
from runbooks.core.secret_values import bare_token, is_address_in_part, is_prose, is_value, is_value_said

_OPTION = re.compile(
    r"(?<![\w\-.])--?([A-Za-z][\w.\-]{0,60}+)(?:[ \t\0]{1,8}|\\{0,4}[\"'],\s{0,40}(?P<q>\\{0,4}[\"']))",
    re.ASCII,
)
_NAMED = re.compile(
    r"(?<![\w.\-])-{0,2}([A-Za-z_][\w.\-]{0,99}+)\\{0,4}[\"']?[ \t]{0,8}(=>|:=|==|[:=])[ \t]{0,8}", re.ASCII
)
_WORDS_BEFORE = re.compile(r"(?<![\w.\-/=@:])(?:[A-Za-z_][\w.\-]{0,40}+[ \t]{1,4}){1,2}+\Z", re.ASCII)  # of a name: "secret access "
_MOST_BEFORE = 90  # characters of those words
_QUOTE = re.compile(r"\\{0,4}[\"'`]")
_BARE = re.compile(r"[^\s\0\"'`]++")
_TO_EOL = re.compile(r"[^\r\n\0\"]++")
_BLOCK = re.compile(r"[|>][+\-0-9]{0,2}[ \t]*\r?\n")
_INDENTED = re.compile(r"([ \t]*+)([^\n]*+)\n?")
_LONGEST_SAID = 500  # longer values are no sentence
_TRAIL = ",;)]}"

_ENV_LINE = re.compile(r"[A-Za-z_]\w*=")


def options(text: str, mark: Mark) -> str:
    """`--token X` with blanks, NUL or list punctuation between; `--token=X` is found by name."""
    out, at, pos = [], 0, 0
    while m := _OPTION.search(text, pos):
        pos = m.end()
        if not is_secret_name(m[1]):
            continue
        start, end = _quoted(text, pos - len(m["q"])) if m["q"] else (_quoted(text, pos) or _bare(text, pos))  # type: ignore[misc]
        value = text[start:end]
        if value and not value.startswith("-") and not is_prose(value) and is_value(m[1], value, option=True):
            out += [text[at:start], shown(m[1], value, mark)]
            at = pos = end
    return "".join([*out, text[at:]])


def looks_like_environment(text: str) -> bool:
    """True for the output of `env`: then a value reaches to the end of its line."""
    lines = [line for line in text.splitlines() if line]
    return len(lines) >= 3 and sum(bool(_ENV_LINE.match(line)) for line in lines) >= 0.8 * len(lines)


def named(text: str, mark: Mark, environment: bool = False) -> str:
    """`NAME=VALUE`, `NAME: VALUE` and quoted fields whose name announces a secret, in one word or more: `API key: VALUE`."""
    out, at, pos = [], 0, 0
    while m := _NAMED.search(text, pos):
        pos = m.end()
        name, begin = _name(text, m)
        if not name or (m[2] == ":" and text.startswith("//", pos)) or _quoted_name(text, m, begin):
            continue
        start, end = _value_span(text, m, begin, environment)
        value, quoted = text[start:end], bool(_QUOTE.match(text, m.end()))
        if (
            not value.strip()
            or not is_value(name, value, option=m[0].startswith("-"))
            or ((m[2] == ":" or " " in name) and not quoted and not _is_value_said(text, m, name, end))
        ):
            continue
        out += [text[at:start], shown(name, value, mark)]
        at = pos = end
    return "".join([*out, text[at:]])


def shown(name: str, value: str, mark: Mark) -> str:
    """What may be shown of the value: of an address its host, else the placeholder."""
    if is_address_in_part(name, value):
        return value
    where, sign, path = value.partition("://")
    host, _, rest = path.partition("/")
    if is_address(name) and sign and host:
        return f"{where}://{host}/{mark(name, rest)}" if rest else value
    return mark(name, bare_token(value))


def named_hint() -> str:
    """An expression of RE2 that is found in every text with something for `named`."""
    return rf"{name_hint()}[_.\-]*\\{{0,4}}[\"']?[ \t]{{0,8}}[:=]"


def options_hint() -> str:
    """The same for `options`."""
    return rf"-[\w.\-]*{name_hint()}(?:[ \t\x00]|\\{{0,4}}[\"'],)"


def _name(text: str, m: re.Match[str]) -> tuple[str, int]:
    """The secret name that ends there and where it begins; "" for none. The words before it decide with it."""
    start = m.start()
    before = _words_before(text, start) if start == m.start(1) else []
    if is_secret_name(m[1]):
        other = before and before[-1].lower() != "no" and not secret_words(before[-1], m[1])  # "forward pass", "pad token"
        return "" if other else m[1], start
    for i in range(len(before) - 1, -1, -1):
        start = text.rindex(before[i], 0, start)
        if secret_words(*before[i:], m[1]):
            return " ".join((*before[i:], m[1])), start
    return "", start


def _words_before(text: str, at: int) -> list[str]:
    """The words right before a name; none where they are the value of another: `mode=forward pass=VALUE`."""
    found = _WORDS_BEFORE.search(text, max(0, at - _MOST_BEFORE), at)
    a_value = found and text[max(0, found.start() - 4) : found.start()].rstrip(" \t").endswith("=")
    return found[0].split() if found and not a_value else []


def _quoted_name(text: str, m: re.Match[str], begin: int) -> bool:
    """`"token:"`: the quote behind the colon closes the one before the name."""
    before = text[begin - 1 : begin]
    return before in ("'", '"', "`") and m[0][-1] in ":=" and text.startswith(before, m.end()) and before not in m[0]


def _is_value_said(text: str, m: re.Match[str], name: str, end: int) -> bool:
    """Whether the rest of the line behind `name:` is a value, not how a sentence goes on."""
    if end - m.end() > _LONGEST_SAID or "\n" in text[m.end() : end]:
        return True
    line = text.find("\n", end, end + 200)
    return is_value_said(name, text[m.end() : line if line >= 0 else end + 200])


def _value_span(text: str, m: re.Match[str], begin: int, environment: bool) -> tuple[int, int]:
    """Where the value after the name that begins there begins and ends; an empty span for none."""
    at = m.end()
    if quoted := _quoted(text, at):
        return quoted
    before = text[max(0, begin - 60) : begin]
    starts_line = not before.rpartition("\n")[2].strip(" \t-\"'")
    if starts_line and m[2] == ":" and (block := _BLOCK.match(text, at)):
        return block.end(), _block_end(text, block.end(), len(before.rpartition("\n")[2]))
    if "=" in m[2] and (nul := text.find("\0", at, at + 4096)) > 0:
        return at, nul
    if starts_line and (m[2] == ":" or environment) and (line := _TO_EOL.match(text, at)):
        return at, at + len(line[0].rstrip(" \t" + _TRAIL))
    if m[2] == ":" and before.endswith("/") and text[at - 1] == ":":
        return at, at
    return _bare(text, at, stop="&" if before.endswith(("?", "&")) else "")


def _block_end(text: str, at: int, indent: int) -> int:
    """The end of a YAML block: the first line that is not indented deeper than its key."""
    while at < len(text):
        line = _INDENTED.match(text, at)
        if line and len(line[1]) <= indent and line[2].strip():
            return at - 1
        at = line.end() if line else len(text)
    return at


def _bare(text: str, at: int, stop: str = "") -> tuple[int, int]:
    found = _BARE.match(text, at)
    value = found[0] if found else ""
    if stop:
        value = value.partition(stop)[0]
    return at, at + len(value.rstrip(_TRAIL))


def _quoted(text: str, at: int) -> tuple[int, int] | None:
    """Inside of the quotes (perhaps escaped) that open at `at`; to the line's end if they never close."""
    found = _QUOTE.match(text, at)
    if not found:
        return None
    depth, start = len(found[0]) - 1, found.end()
    end = start
    while (end := text.find(found[0][-1], end, start + 8192)) >= 0:
        slashes = min(8, end - start) - len(text[max(start, end - 8) : end].rstrip("\\"))
        if slashes == depth or (depth == 0 and slashes % 2 == 0):
            return start, end - depth
        end += 1
    line = text.find("\n", start)
    return start, len(text) if line < 0 else line
