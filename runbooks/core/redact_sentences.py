"""The pass that finds secrets told in a sentence: "the password is hunter2", "with password hunter2"."""

import re
from functools import cache

from runbooks.core.redact_text import PLACEHOLDER, Mark
from runbooks.core.secret_names import is_human, is_secret_name, last_word, name_hint, words_of
from runbooks.core.secret_shapes import shapes
from runbooks.core.secret_values import REFERENCE, is_algorithm, is_name, is_plain, is_prose, is_value

_VALUE = r"(?:\\{0,4}([\"'`])([^\"'`\n]{1,200})\\{0,4}[\"'`]|([^\s\"'`\0<>]+))"
_TRAIL = ".,;:!?)]}"
_SPEECH = re.compile(r"[a-z]+(?:ed|ing|able|ible|ly|en|er|ion|ent|ant)", re.I)
_MADE_UP = re.compile(r"(?=\D*\d)[A-Za-z0-9][\w!@#$%^&*+=./~\-]{3,}")  # what is a secret even without "is"
_NAME = r"(?<![\w.\-])(?P<name>[A-Za-z_][\w.\-]{2,99}+)"
_BESIDE = re.compile(
    _NAME + r"[\"'\])]{0,3}(?:[ \t]+(?:is|was|to|as)[ \t]+|[ \t]*(?:→|->|=|\||>|,|%3D)[ \t]*|[ \t]+)[\"']?"
    r"(?P<value>[A-Za-z0-9][\w!@#$%^&*+=./~\-]{7,400}+)(?![\w!@#$%^&*+=./~\-])",
    re.ASCII,
)
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z_][\w.\-]{2,99}+)>(?P<value>[^<>\r\n]{1,400})</", re.ASCII)
_PAIR = re.compile(
    r"\b[Nn]ame[\"']?\s{0,3}:\s{0,3}[\"']?(?P<name>[A-Za-z_][\w.\-]{1,99}+)[\"']?\s{0,3},?\s{0,40}[\"']?[Vv]alue[\"']?\s{0,3}:[ \t]{0,3}"
    r"(?:([\"'])(?P<quoted>[^\"'\n]+)|(?P<value>[^\s\"',}\]]+))",
    re.ASCII,
)
_SHORTEST = 6  # a plain word that is said to be a password


def sentences_hint() -> str:
    """An expression of RE2 that is found in every text with something for `sentences`."""
    return f"(?:{'|'.join(_spaced(shapes().sentences.nouns))})[ \\t]"


def sentences(text: str, mark: Mark) -> str:
    """What a sentence says to be a password or token. A plain word only after "is", and only if no message goes on so."""

    def one(m: re.Match[str]) -> str:
        noun, verb = m["noun"], m["verb"]
        quoted, value = m[m.re.groups - 1], m[m.re.groups - 1] or m[m.re.groups].rstrip(_TRAIL)
        at = m.start(m.re.groups - 1) if quoted else m.start(m.re.groups)
        after = text[at + len(value) : at + len(value) + 2]
        given = not verb and bool(_given().search(text, max(0, m.start() - 12), m.start()))
        if not (_is_a_value(noun, value, bool(verb), bool(quoted), after) or (given and _is_given(noun, value))):
            return m[0]
        begin = at - m.start()
        return m[0][:begin] + mark(re.sub(r"\W+", "-", noun.lower()), value) + m[0][begin + len(value) :]

    return _sentence().sub(one, text)


def beside_hint() -> str:
    """An expression of RE2 that is found in every text with something for `beside`."""
    return rf"{name_hint()}[\"'\])]{{0,3}}(?:[ \t]|→|->|=|\||>|,|%3D)"


def beside(text: str, mark: Mark) -> str:
    """What stands beside a secret name without a colon: `ENV DB_PASS x`, `| password | x |`, `<token>x</token>`."""

    def element(m: re.Match[str]) -> str:
        name, value = m["name"], m["value"].strip()
        said = is_human(name) and is_secret_name(name) and is_value(name, value) and not is_prose(value)
        return m[0].replace(f">{m['value']}<", f">{mark(name, value)}<") if said else m[0]

    text = _ELEMENT.sub(element, text) if "</" in text else text
    out, at, pos = [], 0, 0
    while m := _BESIDE.search(text, pos):
        pos, value = m.end("name"), m["value"].rstrip(_TRAIL)
        if is_secret_name(m["name"]) and is_value(m["name"], value) and _is_odd(m["name"], value):
            out += [text[at : m.start("value")], mark(m["name"], value)]
            at = pos = m.start("value") + len(value)
    return "".join([*out, text[at:]])


def _is_odd(name: str, value: str) -> bool:
    """Letters and digits mixed as nobody writes; a name with numbers in it is no key."""
    if last_word(name) and len(words_of(name)) == 1:
        return False  # a compiler's pass, a chip's pin
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and (is_human(name) or not is_name(value))


def pairs_hint() -> str:
    """An expression of RE2 that is found in every text with something for `pairs`."""
    return rf"{name_hint()}[\"']?\s{{0,3}},?\s{{0,40}}[\"']?value[\"']?\s{{0,3}}:"


def pairs(text: str, mark: Mark) -> str:
    """`name: DB_PASS` and the `value:` behind it, as Kubernetes writes variables in YAML and JSON."""

    def one(m: re.Match[str]) -> str:
        group = "quoted" if m["quoted"] else "value"
        if not is_secret_name(m["name"]) or not is_value(m["name"], m[group]):
            return m[0]
        return m[0][: m.start(group) - m.start()] + mark(m["name"], m[group])

    return _PAIR.sub(one, text)


def _is_a_value(noun: str, value: str, verb: bool, quoted: bool, after: str) -> bool:
    if not value or is_prose(value) or REFERENCE.fullmatch(value) or PLACEHOLDER.fullmatch(value) or "://" in value:
        return False
    if not is_plain(value):
        told = verb and value[0] not in "-/($&{["
        made_up = _MADE_UP.fullmatch(value) and (is_human(noun) or not is_name(value))
        return len(value) >= 4 and any(c.isalnum() for c in value) and bool(told or quoted or made_up)
    if re.fullmatch(r"\d{4,5}", value):
        return noun.lower() == "pin"
    if not (verb and is_human(noun)) or not value.isalpha():
        return False
    ends = not after or after[0] in _TRAIL + "\n" or quoted
    return ends and len(value) >= _SHORTEST and not _SPEECH.fullmatch(value) and not value.isupper()


def _is_given(noun: str, value: str) -> bool:
    """`with password swordfish`: a word of its own, and none of those with which a message goes on."""
    return is_human(noun) and value.isalpha() and value.islower() and len(value) >= _SHORTEST and not (
        is_prose(value) or _SPEECH.fullmatch(value) or is_algorithm(value)
    )


@cache
def _given() -> re.Pattern[str]:
    """What stands right before a password that somebody used."""
    return re.compile(rf"\b(?:{'|'.join(shapes().sentences.before)})[ \t]+(?:the[ \t]+)?$", re.I)


def _spaced(words: tuple[str, ...]) -> list[str]:
    return [w.replace(" ", "[ _\\-]?") for w in sorted(words, key=lambda w: (-len(w), w))]


@cache
def _sentence() -> re.Pattern[str]:
    s = shapes().sentences
    verbs = "|".join(v.replace(" ", r"[ \t]+") for v in sorted(s.verbs, key=lambda v: (-len(v), v)))
    noun = rf"(?P<noun>\b(?:{'|'.join(_spaced(s.nouns))})\b)"
    owner = r"[ \t]+(?:for|of)[ \t]+[\w.\-@/'\"]{1,80}"
    told = rf"(?:{owner})?[ \t]+(?P<verb>{verbs})[ \t:]+"
    return re.compile(rf"{noun}(?:{told}|{owner}:[ \t]+|[ \t]+){_VALUE}", re.I)
