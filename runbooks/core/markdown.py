"""Text from the world made safe for Markdown: shown as it was read, never acting as markup."""

import html as _html
import re
from typing import Any

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_NEWLINES = re.compile("[\r\n\v\f\x85\u2028\u2029]+")
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u061c\ud800-\udfff\U000e0000-\U000e007f]"
)
_ENTITY = re.compile(r"&(?=#?[A-Za-z0-9]+;)")
_ALWAYS = re.compile(r"([\\`*\[|~$])")
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(#{1,6}(?=\s|$)|[+-](?=\s|$)|-(?=[-\s]*$)|=+(?=\s*$))")
_HEADING_END = re.compile(r"(?<=\s)(#+\s*)$")
_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
GONE = "\ufffd"


class Safe(str):
    """Markdown made by this module: not escaped again."""

    __slots__ = ()


def clean(text: str) -> str:
    """`text` without terminal codes; other control and direction characters become U+FFFD. Newlines stay."""
    text = re.sub("\r\n?|[\v\f\x85\u2028\u2029]", "\n", _ANSI.sub("", text))
    return _CONTROL.sub(GONE, text)


def one_line(text: str) -> str:
    """`text` cleaned, on one line."""
    text = _NEWLINES.sub(" ", clean(text)).replace("\t", " ")
    return text.strip()


def md(value: Any) -> Safe:
    """`value` as inline Markdown that shows exactly its text: no markup, HTML, table cell or block in it."""
    if isinstance(value, Safe):
        return value
    plain = one_line(str(value)) or ("(blank)" if str(value) else "")
    text = _ENTITY.sub("&amp;", plain).replace("<", "&lt;").replace(">", "&gt;")
    text = _UNDERSCORE.sub(r"\\_", _ALWAYS.sub(r"\\\1", text))
    # at the start of a line these would be a heading, a list or a rule; at the end the close of a heading
    text = _HEADING_END.sub(r"\\\1", text)
    return Safe(_NUMBERED.sub(r"\1\\\2", _BLOCK_START.sub(r"\\\1", text)))


def block(value: Any, language: str = "text") -> Safe:
    """`value` as a fenced block that its content cannot close."""
    text = clean(str(value)).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Safe(f"{fence}{language}\n{text}\n{fence}")


def in_html(value: Any) -> Safe:
    """`value` as text inside an HTML tag on one line."""
    text = _html.escape(one_line(str(value)))
    return Safe(re.sub(r"([\\`*\[_~|$])", lambda m: f"&#{ord(m[1])};", text))
