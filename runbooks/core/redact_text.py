"""The passes that find secrets by form: keys, headers, URLs, prefixes. Each is `(text, mark) -> text`."""

import base64
import binascii
import re
from collections.abc import Callable

from runbooks.core.secret_names import is_secret_name, may_be_path

Mark = Callable[[str, str], str]
PLACEHOLDER = re.compile(r"<secret:[A-Za-z0-9_.\-]{1,40}:[0-9a-f]{8}>")

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s:,\\]|-(?!-))*+")
_LINE = re.compile(r"[ \t]*[A-Za-z0-9+/=]{16,}[ \t]*\r?")

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
_SCHEME = re.compile(r"\b(bearer|basic)([ \t]+)([A-Za-z0-9._~+/\-]{8,}+={0,2})", re.I)

_USERINFO = re.compile(r"(?<=://)([^\s/?#\"'`:@]*+):([^\s/?#\"'`]{1,500})@")
_USERINFO_SLASH = re.compile(  # a password with a slash in it, which strict URLs forbid; not a port and a path
    r"(?<=://)([^\s/?#\"'`:@\[]*+):(?!\d{1,5}(?:[/?#\s]|$))([^\s\"'`@<]{1,300})@"
)
_USER_ONLY = re.compile(r"(?<=://)([A-Za-z0-9_\-]{16,200}+)@")
_QUERY = re.compile(r"(?<=[?&])([A-Za-z][\w.\-]{0,60}+)=(?!=[\"'])([^\s&#\"'`<>]++)", re.ASCII)  # not a filter's ?key=="x"
_QUERY_NAMES = frozenset({"key", "sig", "signature", "xamzsignature", "xamzcredential", "code", "pass", "st"})

_KNOWN = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?P<runpod>rpa_[A-Za-z0-9]{16,})|(?P<huggingface>hf_[A-Za-z0-9]{16,})|(?P<github>gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,})|(?P<gitlab>glpat-[\w\-]{16,})|(?P<slack>xox[a-z]-[A-Za-z0-9\-]{10,})"
    r"|(?P<jwt>eyJ[\w\-]{8,}\.[\w\-]{2,}(?:\.[\w\-]*)*+)|(?P<sk>sk-[A-Za-z0-9_\-]{16,})|(?P<nvidia>nvapi-[\w\-]{16,})"
    r"|(?P<google>AIza[\w\-]{35})|(?P<pypi>pypi-[\w\-]{32,})|(?P<npm>npm_[A-Za-z0-9]{30,})|(?P<tailscale>tskey-[\w\-]{10,})"
    r")",
    re.ASCII,
)
_AWS = re.compile(
    r"(?<![A-Za-z0-9_])((?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])(?:([\s:,;|\"']{1,8})([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+]))?"
)
_PROSE_WORDS = """required incorrect invalid expired missing not failed denied unknown empty the is ok no accepted
rejected for and or to from error with was has must authentication publickey changed needed wrong bearer basic token
digest a an in of on"""
PROSE = frozenset(_PROSE_WORDS.split())
_SWITCH_WORDS = "true false none null nil yes no on off ~ | > |- >- |+ >+"
_SWITCH = frozenset(["", *_SWITCH_WORDS.split()])
_READ = r"\$\((?:cat|head|vault|pass|op|jq|aws|gcloud|kubectl|secret-tool)(?![\w.\-])[^()\"'`]{0,200}\)?"  # read when it runs
_REFERENCE = re.compile(r"\$\{?[A-Za-z_]\w*\}?|\$\{\{[^}]{0,100}\}\}|" + _READ + r"|\*{3,}|x{6,}")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.\-]+(?:/[\w.\-]+)+|[\w.\-]+\.(?:pem|key|pub|json)")
_OPEN_VALUE = re.compile(r"(?:ssh-|ecdsa-|sk-ssh-|SHA256:|MD5:)")


def is_value(name: str, value: str) -> bool:
    """False for no secret under a secret name: a switch, a `$REFERENCE`, the path of a key file."""
    plain = value.strip()
    if plain.lower() in _SWITCH or _REFERENCE.fullmatch(plain):
        return False
    return not (may_be_path(name) and (_PATH.fullmatch(plain) or _OPEN_VALUE.match(plain)))


def bare_token(value: str) -> str:
    """The token in `Bearer X`, so that it hashes like X alone; any other value as it is."""
    scheme, _, rest = value.partition(" ")
    return rest.strip() or value if scheme.lower() in ("bearer", "token") else value


def pem(text: str, mark: Mark) -> str:
    """Private keys in armour, over lines or with literal backslash-n, whole or cut off at either end."""
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
        if (not m[2] and m[3].lower() in PROSE) or _REFERENCE.fullmatch(m[3]):
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
    if "://" in text:
        text = _USERINFO.sub(lambda m: f"{m[1]}:{mark('url-password', m[2])}@", text)
        text = _USERINFO_SLASH.sub(lambda m: f"{m[1]}:{mark('url-password', m[2])}@", text)
        text = _USER_ONLY.sub(lambda m: mark("url-user", m[1]) + "@" if _looks_random(m[1]) else m[0], text)

    def query(m: re.Match[str]) -> str:
        secret = is_secret_name(m[1]) or re.sub(r"[^a-z]", "", m[1].lower()) in _QUERY_NAMES
        return f"{m[1]}={mark(m[1], m[2])}" if secret and is_value(m[1], m[2]) else m[0]

    return _QUERY.sub(query, text) if "?" in text or "&" in text else text


def known(text: str, mark: Mark) -> str:
    """Tokens that show by their own first letters whose they are."""

    def aws(m: re.Match[str]) -> str:
        tail = "" if not m[3] else m[2] + (m[3] if re.fullmatch("[0-9a-f]{40}", m[3]) else mark("aws-secret", m[3]))
        return mark("aws-key-id", m[1]) + tail

    def token(m: re.Match[str]) -> str:
        plain = m.lastgroup == "sk" and not any(c.isdigit() for c in m[0])
        return m[0] if plain else mark(m.lastgroup or "token", m[0])

    return _KNOWN.sub(token, _AWS.sub(aws, text))
