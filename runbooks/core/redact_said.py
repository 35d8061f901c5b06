"""The pass that finds secrets told in a sentence: "the password is hunter2", "with password hunter2"."""

import re
from functools import cache

from runbooks.core.redact_text import PLACEHOLDER, Mark
from runbooks.core.secret_names import is_human
from runbooks.core.secret_shapes import shapes
from runbooks.core.secret_values import REFERENCE, is_plain, is_prose

_VALUE = r"(?:\\{0,4}([\"'`])([^\"'`\n]{1,200})\\{0,4}[\"'`]|([^\s\"'`\0<>]+))"
_TRAIL = ".,;:!?)]}"
_SPEECH = re.compile(r"[a-z]+(?:ed|ing|able|ible|ly|en|er|ion|ent|ant)", re.I)
_MADE_UP = re.compile(r"(?=\D*\d)[A-Za-z0-9][\w!@#$%^&*+=./~\-]{3,}")  # what is a secret even without "is"
_SHORTEST = 6  # a plain word that is said to be a password


def said_hint() -> str:
    """An expression of RE2 that is found in every text with something for `said`."""
    return f"(?:{'|'.join(_spaced(shapes().sentences.nouns))})[ \\t]"


def said(text: str, mark: Mark) -> str:
    """What a sentence says to be a password or token. A plain word only after "is", and only if no message goes on so."""

    def one(m: re.Match[str]) -> str:
        noun, verb = m["noun"], m["verb"]
        quoted, value = m[m.re.groups - 1], m[m.re.groups - 1] or m[m.re.groups].rstrip(_TRAIL)
        at = m.start(m.re.groups - 1) if quoted else m.start(m.re.groups)
        after = text[at + len(value) : at + len(value) + 2]
        if not _is_told(noun, value, bool(verb), bool(quoted), after):
            return m[0]
        begin = at - m.start()
        return m[0][:begin] + mark(re.sub(r"\W+", "-", noun.lower()), value) + m[0][begin + len(value) :]

    return _sentence().sub(one, text)


def _is_told(noun: str, value: str, verb: bool, quoted: bool, after: str) -> bool:
    if not value or is_prose(value) or REFERENCE.fullmatch(value) or PLACEHOLDER.fullmatch(value) or "://" in value:
        return False
    if not is_plain(value):
        told = verb and value[0] not in "-/($&{["
        return len(value) >= 4 and any(c.isalnum() for c in value) and bool(told or quoted or _MADE_UP.fullmatch(value))
    if re.fullmatch(r"\d{4,5}", value):
        return noun.lower() == "pin"
    if not (verb and is_human(noun)) or not value.isalpha():
        return False
    ends = not after or after[0] in _TRAIL + "\n" or quoted
    return ends and len(value) >= _SHORTEST and not _SPEECH.fullmatch(value) and not value.isupper()


def _spaced(words: tuple[str, ...]) -> list[str]:
    return [w.replace(" ", "[ _\\-]?") for w in sorted(words, key=lambda w: (-len(w), w))]


@cache
def _sentence() -> re.Pattern[str]:
    s = shapes().sentences
    verbs = "|".join(v.replace(" ", r"[ \t]+") for v in sorted(s.verbs, key=lambda v: (-len(v), v)))
    noun = rf"(?P<noun>\b(?:{'|'.join(_spaced(s.nouns))})\b)"
    told = rf"(?:[ \t]+(?:for|of)[ \t]+[\w.\-@]{{1,40}})?[ \t]+(?P<verb>{verbs})[ \t:]+"
    return re.compile(rf"{noun}(?:{told}|[ \t]+){_VALUE}", re.I)
