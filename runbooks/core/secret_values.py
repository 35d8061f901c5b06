"""Which values under a secret name are no secret: switches, references, paths, algorithms, the words of a sentence."""

import re
from functools import cache

from runbooks.core.secret_names import is_address, is_human, last_word, may_be_path, words_of
from runbooks.core.secret_shapes import shapes

_READ = r"\$\((?:cat|head|vault|pass|op|jq|aws|gcloud|kubectl|secret-tool)(?![\w.\-])[^()\"'`]{0,200}\)?"  # read when it runs
REFERENCE = re.compile(
    r"\$\{?[A-Za-z_]\w*\}?|\$\{\{[^}]{0,100}\}\}|" + _READ + r"|\*{3,}|x{6,}|%[sdrq]|<[a-z][a-z \-]{0,30}>"
)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.\-]+(?:/[\w.\-]+)+|[\w.\-]+\.(?:pem|key|pub|json)")
_FOLDER = re.compile(r"[/~.]|[A-Za-z]:\\")
_OPEN_VALUE = re.compile(r"(?:ssh-|ecdsa-|sk-ssh-|SHA256:|MD5:|sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
_CAPITALS = re.compile(r"[A-Z][A-Z_]{0,14}")  # KEY=VALUE, Bearer TOKEN: where something is to be filled in
_PLAIN = re.compile(
    r"[\W_]*(?:[A-Z]?[a-z]*|[A-Z]{1,12})(?:[.:_/'’\-](?:[A-Z]?[a-z]+|[A-Z]{1,12}))*[\W_]*|[\W_]*\d{1,5}[\W_]*"
)
_FORM_OF_SPEECH = re.compile(r"[a-z]+(?:ed|ing|able|ible|ly|tion|less|ful|en|nt)[.,;:!?)]*", re.I)
_PART = r"(?>[a-z]+\d{0,3}(?![0-9a-z])|v?\d{1,6}(?![0-9a-z])|[0-9a-f]{4,10}(?![0-9a-z])|[0-9a-z]{5}(?![0-9a-z]))"
_NAME = re.compile(rf"{_PART}(?:[-_./:]{_PART})*+")
_NUMBER = re.compile(r"0x[0-9a-f]{1,16}", re.I)
_MEASURED = re.compile(r"(?!\d{6,}\Z)[+\-]?\d+(?:[.,/]\d+)?(?:[ ]?(?:%|[nuµm]?s|m|min|h|x|k|[KMGT]i?B?))?(?=[\s,;)]|\Z)")  # 12, 3/5, 3.2 s
_LONGEST_WORD = 100
_END = ".,;:!?)('\"`"


def is_value(name: str, value: str, option: bool = False) -> bool:
    """False for no secret under a secret name: a switch, a `$REFERENCE`, the path of a key file, `KEY=VALUE`.

    Behind an option (`--pass WORD`) any word counts: there is no sentence that it could belong to.
    """
    plain, words = value.strip(), shapes().words
    if plain.lower() in words.switches or not plain or REFERENCE.fullmatch(plain):
        return False
    if not is_human(name) and (_NUMBER.fullmatch(plain) or _CAPITALS.fullmatch(plain) or _is_sentence(plain)):
        return False
    if not is_human(name) and is_algorithm(plain):
        return False
    if "".join(words_of(name)) in shapes().names.folders and _FOLDER.match(plain):
        return False
    if is_address(name) and "://" not in plain and (len(plain) < 16 or is_plain(plain)):
        return False
    if (word := last_word(name)) and not (_has_form(name, plain, word.form) or (option and not word.form and plain.isalpha())):
        return False
    return not (may_be_path(name) and (_PATH.fullmatch(plain) or is_open(plain)))


def is_value_said(name: str, value: str) -> bool:
    """False if what stands behind `name: ` is how a sentence goes on. A key or token has no blanks and is no word."""
    words = value.split()
    if not words or is_prose(words[0]) or words[0].endswith("…"):  # the beginning of one
        return False
    if len(words) == 1 and (word := last_word(name)) and word.form:
        return True  # a number, say, of which is_value has seen the form
    if is_human(name):
        return len(words) == 1 or not (is_plain(words[0]) and _FORM_OF_SPEECH.fullmatch(words[0]))
    if len(words) > 1:
        return not (is_plain(words[0]) or is_algorithm(words[0]))
    if "/" in words[0] and is_name(words[0]):
        return False
    return not (is_plain(words[0]) and (_FORM_OF_SPEECH.fullmatch(words[0]) or not words[0].isalpha()))


def _is_sentence(value: str) -> bool:
    """Several words as people write them: what our own fields say about a key, and no key."""
    words = value[:500].split()
    return len(words) >= 3 and all(map(is_plain, words))


def is_plain(word: str) -> bool:
    """True for a word as people write it, a small number, or names joined by dots: nothing that looks made at random."""
    return len(word) <= _LONGEST_WORD and bool(_PLAIN.fullmatch(word))


def is_name(value: str) -> bool:
    """True for names of things, with their numbers and short hashes: trainer-env-v2, ghcr.io/acme/auth:1.2."""
    return len(value) <= _LONGEST_WORD and bool(_NAME.fullmatch(value))


def is_prose(word: str) -> bool:
    """True for the words that follow "token:" or "password is" in messages."""
    return word.strip(_END).lower() in shapes().words.prose


def is_open(value: str) -> bool:
    """True for what anybody may see: a public key, a fingerprint, a digest."""
    return bool(_OPEN_VALUE.match(value))


def is_algorithm(value: str) -> bool:
    """True for the name of an algorithm, or a list of them."""
    return bool(_algorithms().fullmatch(value))


def is_address_in_part(name: str, value: str) -> bool:
    """True for an address under a name like DSN, of which other passes take out what is secret."""
    return is_address(name) and "webhook" not in words_of(name) and ("://" in value or "=" in value or "@" in value)


def bare_token(value: str) -> str:
    """The token in `Bearer X`, so that it hashes like X alone; any other value as it is."""
    scheme, _, rest = value.partition(" ")
    return rest.strip() or value if scheme.lower() in ("bearer", "token") else value


def _has_form(name: str, value: str, form: str) -> bool:
    if form:
        return bool(re.fullmatch(form, value))
    return len(words_of(name)) > 1 or not (is_plain(value) or _MEASURED.match(value))  # `pass: 3 of 5`, `pass: all` are no secrets


@cache
def _algorithms() -> re.Pattern[str]:
    words = shapes().words
    parts = "|".join(re.escape(p) for p in sorted(words.algorithm_parts, key=lambda p: (-len(p), p)))
    known = "|".join(re.escape(p) for p in words.algorithm_parts if len(p) > 1)
    one = rf"(?:{words.algorithms}|(?=[^,\s]{{0,80}}?(?:{known}))(?>{parts}|\d{{1,5}}|[-_+/.@]){{1,40}}+)"
    return re.compile(rf"{one}(?:[,\s]+{one})*", re.I)
