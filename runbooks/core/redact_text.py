"""The passes that find secrets by form: keys in armour, headers, URLs. Each is `(text, mark) -> text`."""

import base64
import binascii
import re
from collections.abc import Callable

from runbooks.core.secret_names import is_secret_name
from runbooks.core.secret_shapes import shapes
from runbooks.core.secret_values import REFERENCE, is_algorithm, is_prose, is_value

Mark = Callable[[str, str], str]
PLACEHOLDER = re.compile(r"<secret:[A-Za-z0-9_.\-]{1,40}:[0-9a-f]{8}>")

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s:,\\]|-(?!-))*+")
_PUTTY = re.compile(
    r"(Private-(?:Lines|MAC|Hash): ?)(\d{1,3}\r?\n(?:[A-Za-z0-9+/=]{4,80}(?:\r?\n|$)){1,200}|[0-9a-f]{32,64})"
)
_LINE = re.compile(r"[ \t]*[A-Za-z0-9+/=]{16,}[ \t]*\r?")

HEADERS_HINT = "authorization|cookie"
SCHEMES_HINT = "(?:bearer|basic)[ \\t]"
_LONG_HEADER = re.compile(
    r"(?<![\w\-])((?:proxy-)?authorization[ \t]*:[ \t]*(?:digest|aws4-hmac-sha256|negotiate|signature)"
    r"[ \t]+)([^\r\n\0]++)",
    re.I,
)
_HEADER = re.compile(
    r"(?<![\w\-])((?:proxy-)?authorization[\"']?[ \t]*[:=][ \t]*[\"']?)([a-z0-9\-]{1,20}[ \t]+)?"
    r"([^\s\"'`\0]++)",
    re.I,
)
_COOKIE = re.compile(r"(?<![\w\-])((?:set-)?cookie[ \t]*:[ \t]*+)([^\s\"'`\0][^\r\n\"'`\0]*+)", re.I)
_TO_FILL_IN = re.compile(r"[A-Z][A-Z_]{0,14}")  # `Bearer TOKEN` of a manual
_SCHEME = re.compile(r"\b(bearer|basic)([ \t]+)([A-Za-z0-9._~+/\-]{8,}+={0,2})", re.I)

_USERINFO = re.compile(r"(?<=://)([^\s/?#\"'`:@]*+):([^\s/?#\"'`]{1,500})@")
_USERINFO_SLASH = re.compile(  # a password with a slash in it, which strict URLs forbid; not a port and a path
    r"(?<=://)([^\s/?#\"'`:@\[]*+):(?!\d{1,5}(?:[/?#\s]|$))([^\s\"'`@<]{1,300})@"
)
_USER_ONLY = re.compile(r"(?<=://)([A-Za-z0-9_\-]{16,200}+)@")
_DRIVER = re.compile(
    r"(?<![\w.\-/:])([\w.\-]{1,80}):([^\s@/\"'`]{1,200})@(?=(?:tcp|tcp6|unix|udp|cloudsql)\()"
)  # Go's addresses
_ODBC = re.compile(r"(;[ ]?pwd[ ]?=[ ]?)(\{[^}\n]{1,200}\}|[^;\s\"'/~$][^;\s\"']*)", re.I)
_ORACLE = re.compile(
    r"(?<![\w.\-/])([A-Za-z]\w{0,80})/([^\s@/\"'`]{1,100})@(?=//|\(DESCRIPTION|[\w.\-]{1,100}(?::\d{1,5})?/)"
)
_QUERY = re.compile(
    r"(?<=[?&])([A-Za-z][\w.\-]{0,60}+)=(?!=[\"'])([^\s&#\"'`<>]++)", re.ASCII
)  # not a filter's ?key=="x"
_QUERY_NAMES = frozenset({"key", "sig", "signature", "xamzsignature", "xamzcredential", "code", "pass", "st"})


def pem(text: str, mark: Mark) -> str:
    """Private keys in armour, over lines or with literal backslash-n, whole or cut off at either end."""
    if "Private-" in text:
        text = _PUTTY.sub(lambda m: m[1] + mark("private-key", _same_key(m[2])), text)
    if "PRIVATE KEY" not in text:
        return text
    out, at, ended = [], 0, True
    while begin := _BEGIN.search(text, at):
        end = _END.search(text, begin.end()) if ended else None
        ended = end is not None
        body = _BODY.match(text, begin.end())
        stop = end.end() if end else body.end() if body else begin.end()
        out += [
            _tail_of_key(text[at : begin.start()], mark),
            mark("private-key", _same_key(text[begin.start() : stop])),
        ]
        at = stop
    return "".join([*out, _tail_of_key(text[at:], mark)])


def _same_key(pem: str) -> str:
    return re.sub(r"\\[rn]|\s+", "", pem)


def _tail_of_key(text: str, mark: Mark) -> str:
    """The end of a key whose beginning was cut off: the lines of base64 before its END line."""
    out, at = [], 0
    for end in _END.finditer(text):
        lines = text[at : end.start()].split("\n")
        keep = len(lines) - 1
        while keep > 0 and _LINE.fullmatch(lines[keep - 1]):
            keep -= 1
        body = "\n".join(lines[keep:])
        out += [
            "\n".join([*lines[:keep], ""]) if keep else "",
            mark("private-key", _same_key(body)) if body else "",
            end[0],
        ]
        at = end.end()
    return "".join([*out, text[at:]])


def headers(text: str, mark: Mark) -> str:
    """Authorization and cookie headers, and Bearer or Basic followed by what is no ordinary word."""

    def header(m: re.Match[str]) -> str:
        if (not m[2] and (is_prose(m[3]) or is_algorithm(m[3]))) or REFERENCE.fullmatch(m[3]) or _TO_FILL_IN.fullmatch(m[3]):
            return m[0]
        return m[1] + (m[2] or "") + mark("authorization", m[3])

    text = _LONG_HEADER.sub(lambda m: m[1] + mark("authorization", m[2]), text)
    return _COOKIE.sub(lambda m: m[1] + mark("cookie", m[2]), _HEADER.sub(header, text))


def schemes(text: str, mark: Mark) -> str:
    """`Bearer X` and `Basic X` anywhere, where X is no ordinary word."""

    def scheme(m: re.Match[str]) -> str:
        odd = is_basic(m[3]) if m[1].lower() == "basic" else _looks_random(m[3])
        return m[1] + m[2] + mark("authorization", m[3]) if odd else m[0]

    return _SCHEME.sub(scheme, text)


def is_basic(value: str) -> bool:
    """True if `value` is base64 of `user:password`."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _looks_random(value: str) -> bool:
    return any(c.isdigit() or c == "_" for c in value) or (len(value) >= 16 and value != value.lower())


def urls(text: str, mark: Mark) -> str:
    """Passwords and tokens in the user part and the query of URLs."""

    def userinfo(m: re.Match[str]) -> str:
        if REFERENCE.fullmatch(m[2]) or m[2].lower() in shapes().sentences.nouns:
            return m[0]  # `user:password@host` of a manual
        return f"{m[1]}{m[0][len(m[1])]}{mark('url-password', m[2])}@"

    if ";" in text:
        text = _ODBC.sub(lambda m: m[1] + mark("password", m[2]), text)
    text = _ORACLE.sub(userinfo, _DRIVER.sub(userinfo, text)) if "@" in text else text
    if "://" in text:
        text = _USERINFO_SLASH.sub(userinfo, _USERINFO.sub(userinfo, text))
        text = _USER_ONLY.sub(lambda m: mark("url-user", m[1]) + "@" if _looks_random(m[1]) else m[0], text)

    def query(m: re.Match[str]) -> str:
        secret = is_secret_name(m[1]) or re.sub(r"[^a-z]", "", m[1].lower()) in _QUERY_NAMES
        return f"{m[1]}={mark(m[1], m[2])}" if secret and is_value(m[1], m[2]) else m[0]

    return _QUERY.sub(query, text) if "?" in text or "&" in text else text
