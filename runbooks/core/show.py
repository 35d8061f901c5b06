"""The one place where text becomes Markdown, HTML or a chat message. (A terminal is cleaned as a stream.)

Everything that is not made here counts as foreign: log lines, keys, names, and whatever a judgment says about them. A
type for each kind of output (`Markdown`, `Html`, `Chat`) is made by its escaper or by filling a literal template with
it, and passes its own escaper unchanged; a bare `str` is always escaped. So foreign text cannot act by being forgotten:
it is shown as it was read, makes no link, image, heading or tag, hides nothing and cannot leave its place.
"""

import base64
import html as _html
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from runbooks.core.clean import CONTINUED, LINE_END, clean, one_command, one_line, pieces

_ENTITY = re.compile(r"&(?=#?[A-Za-z0-9]+;)")
_ALWAYS = re.compile(r"([\\`*\[|~$])")
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(#{1,6}(?=\s|$)|[+-](?=\s|$)|-(?=[-\s]*$)|=+(?=\s*$))")
_HEADING_END = re.compile(r"(?<=\s)(#+\s*)$")
_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
# what Prefect's UI (GitHub's Markdown), chats and mail programs make a link of by themselves
_BEGINS = re.compile(r"(?i)://|www\.|mailto:|xmpp:|@(?=[\w-])")
_GOES_ON = re.compile(r"[^\s|`<>]*")
_OPEN_END = ".,;:!?)]}'\"”’"  # punctuation behind an address
_OWN_LINK = re.compile(r"https?://[^\s<>()|`\\\"]+\Z")
_NAMES = (  # ends of names that chats know; without those that end files of our readers: train.py, run.sh, model.pt, libnccl.so
    r"com|net|org|info|biz|io|ai|co|app|dev|me|xyz|site|online|top|link|click|cloud|live|shop|page|pro|tech|store|space|website|"
    r"fun|icu|vip|win|work|support|services|systems|host|team|world|today|blog|agency|group|company|solutions|email|help|security|"
    r"ac|ae|ag|am|ar|at|au|be|bg|br|by|ca|ch|ci|cl|cn|cx|cz|de|dk|ee|es|eu|fi|fm|fr|ga|ge|gg|gq|gr|gs|hk|hr|hu|ie|il|im|in|ir|is|"
    r"it|jp|ke|kr|kz|la|li|lt|lu|lv|ly|ma|mx|my|ng|nl|no|nu|nz|pe|ph|pk|pw|qa|re|ro|ru|sa|se|sg|si|sk|st|su|sx|th|tk|to|tr|tv|tw|"
    r"ua|ug|uk|us|uy|vc|ve|vg|vn|ws|za"
)
_NAMED = re.compile(rf"(?i)(?<=[\w-])\.(?=(?:{_NAMES})(?!\w|-\w|\.\w{{3}}))")  # name.com
_WITH_PATH = re.compile(r"(?i)(?<![\w./-])([\w.-]*[\w-])\.(?=[a-z]{2,24}[/?#])")  # name.example/path
_WWW = re.compile(r"(?i)(?<=www)\.")
_CALLS = re.compile(r"(?<!\w)@(?=\w)|@(?=(?:everyone|here|channel|all|room)\b)", re.I)
_CHAT = str.maketrans({"<": "‹", ">": "›", "`": "'"})
_CHAT_PAIRS = re.compile(r"\|(?=\|)|~(?=~)|\](?=[(\[:])")
_CHAT_START = re.compile(r"^[#*+=|›>-]|^\d{1,9}[.)](?=\s)")


class Markdown(str):
    """Markdown made here."""

    __slots__ = ()


class Html(str):
    """HTML made here."""

    __slots__ = ()


class Chat(str):
    """Text for chat, mail and pagers made here: nothing in it but our own links is a link."""

    __slots__ = ()


Made = TypeVar("Made", Markdown, Html, Chat)


def md(value: Any, longest: int = 0) -> Markdown:
    """`value` as inline Markdown that shows exactly its text: no markup, link, HTML, table cell or block in it."""
    if isinstance(value, Markdown):
        return value
    plain = one_line(str(value), longest) or ("(blank)" if str(value) else "")
    out, at = [], 0
    for start, end in _addresses(plain):
        out += [_escaped(plain[at:start]), f"`{plain[start:end]}`"]
        at = end
    text = "".join([*out, _escaped(plain[at:])])
    # at the start of a line these would be a heading, a list or a rule; at the end the close of a heading
    text = _HEADING_END.sub(r"\\\1", text)
    return Markdown(_NUMBERED.sub(r"\1\\\2", _BLOCK_START.sub(r"\\\1", text)))


def _escaped(plain: str) -> str:
    text = _ENTITY.sub("&amp;", plain).replace("<", "&lt;").replace(">", "&gt;")
    return _UNDERSCORE.sub(r"\\_", _ALWAYS.sub(r"\\\1", text))


def _addresses(plain: str) -> Iterator[tuple[int, int]]:
    """Where something stands that would become a link. Looks at each character a few times at most."""
    end = dotless = 0
    for found in _BEGINS.finditer(plain):
        begin = found.start()
        if begin < (max(end, dotless) if found[0] == "@" else end):
            continue
        while begin > end and (plain[begin - 1].isalnum() or plain[begin - 1] in "-._+"):
            begin -= 1
        if found[0] == "@" and begin == found.start():
            continue
        rest = _rest(plain, found.start())
        if found[0] == "@" and "." not in rest:
            dotless = found.start() + len(rest)
            continue
        end = found.start() + max(len(rest.rstrip(_OPEN_END)), len(found[0]))
        yield begin, end


def _rest(plain: str, start: int) -> str:
    found = _GOES_ON.match(plain, start)
    return found[0] if found else ""


def block(value: Any, language: str = "text") -> Markdown:
    """`value` as a fenced block that its content cannot close."""
    return _fenced(clean(str(value)).strip("\n"), language)


def _fenced(text: str, language: str) -> Markdown:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown(f"{fence}{language}\n{text}\n{fence}")


def commands_block(commands: Iterable[str], width: int = 0) -> Markdown:
    """Commands as a block: each begins a line, and none can look like two. `width`: longer ones are continued."""
    return _fenced("\n".join(_wrapped(c, width) for c in commands), "sh")


def _wrapped(command: str, width: int) -> str:
    lines = one_command(command).replace(LINE_END, f"{LINE_END}\n").split("\n")
    return f"\n{CONTINUED}".join(piece for line in lines for piece in pieces(line, width))


def in_html(value: Any) -> Markdown:
    """`value` as text inside an HTML tag on one line of Markdown."""
    text = _html.escape(one_line(str(value)))
    return Markdown(re.sub(r"([\\`*\[_~|$])", lambda m: f"&#{ord(m[1])};", text))


def link(text: Any, url: str) -> Markdown:
    """A link of our own. Raises ValueError for a URL that is none or could leave its place."""
    if not (_OWN_LINK.match(url) or re.fullmatch(r"/(?:[A-Za-z0-9_.-][A-Za-z0-9/_.-]*)?", url)):
        raise ValueError("not a link of ours")
    shown = md(text).replace("]", r"\]")
    return Markdown(f"[{shown}]({url})")


def picture(says: Any, svg: Html) -> Markdown:
    """An SVG made here as an image that holds it: a browser runs nothing that is in an image, and loads nothing for it."""
    shown = md(says).replace("]", r"\]")
    return Markdown(f"![{shown}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})")


def own_url(url: str) -> Markdown:
    """An address that we wrote ourselves as a link that shows it; anything else as text."""
    return Markdown(f"<{url}>") if _OWN_LINK.match(url) else md(url)


def markdown(template: str, *values: Any) -> Markdown:
    """A literal `template` filled with values; each is escaped unless it is Markdown already."""
    return _filled(Markdown, md, template, values)


def shortened(text: Markdown, most: int) -> Markdown:
    """A page that was made here, with what is beyond `most` characters left away at a line's end."""
    return text if len(text) <= most else Markdown(f"{text[: text.rfind(chr(10), 0, most) + 1]}\n")


def kept(page: str) -> Markdown:
    """A page that was made here and stored since: a report's file, a question's form, or a part of one."""
    return Markdown(page)


def to_html(value: Any) -> Html:
    """`value` as text of an HTML page or of a quoted attribute, on one line."""
    return value if isinstance(value, Html) else Html(_html.escape(one_line(str(value))))


def html(template: str, *values: Any) -> Html:
    """A literal `template` filled with values; each is escaped unless it is Html already."""
    return _filled(Html, to_html, template, values)


def chat(value: Any, longest: int = 0) -> Chat:
    """`value` as text that no chat, mail program or pager makes a link, a call to everybody or markup of.

    Addresses are written as people write them who must not be followed: hxxps://name[.]example.
    """
    if isinstance(value, Chat):
        return value
    text = one_line(str(value), longest).translate(_CHAT)
    for begin, end in reversed(list(_addresses(text))):
        text = text[:begin] + _defanged(text[begin:end]) + text[end:]
    text = _CHAT_PAIRS.sub(lambda m: f"{m[0]} ", text)
    text = _NAMED.sub("[.]", _WITH_PATH.sub(r"\1[.]", text))
    text = _CALLS.sub("@ ", _WWW.sub("[.]", text))
    return Chat(f"· {text}" if _CHAT_START.match(text) else text)


def _defanged(address: str) -> str:
    """hxxps://name[.]example/path; other schemes lose their colon."""
    scheme, is_url, rest = address.partition("://")
    if not is_url:
        scheme, rest = "", address
    is_web = scheme.lower() in ("http", "https")
    head = f"{scheme.lower().replace('tt', 'xx')}://" if is_web else scheme.replace(".", "[.]") + is_url.replace(":", "[:]")
    rest = rest.replace("://", "[:]//").replace("@", "[@]")
    end = min((rest.find(c) for c in "/?#" if c in rest), default=len(rest))
    host, path = rest[:end], rest[end:]
    host = re.sub(r"\.(?=[^.\]]*\Z)", "[.]", host)
    return head + host + (path.replace(".", "[.]") if "[:]//" in rest else path)


def chat_link(url: str) -> Chat:
    """An address that we wrote ourselves, to be followed; anything else as harmless text."""
    return Chat(url) if _OWN_LINK.match(url) else chat(url)


def chat_text(template: str, *values: Any) -> Chat:
    """A literal `template` filled with values; each is made harmless unless it is Chat already."""
    return _filled(Chat, chat, template, values)


def _filled(made: type[Made], escape: Callable[[Any], Made], template: str, values: Iterable[Any]) -> Made:
    return made(template.format(*(escape(v) for v in values)))


def joined(between: str, parts: Iterable[Made]) -> Made:
    """Parts of one kind, with a literal between them. At least one."""
    found = list(parts)
    return type(found[0])(between.join(found))
