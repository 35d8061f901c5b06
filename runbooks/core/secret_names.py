"""Which names announce a secret: variables, JSON fields, options, headers. The names stand in secret_shapes.yaml."""

import re
from functools import cache, lru_cache

from runbooks.core.secret_shapes import Word, shapes

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TAIL = frozenset({"value", "text", "base64", "b64", "old", "new", "previous", "current", "raw"})


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """True if the value under that name should never be shown (`HF_TOKEN`, `dbPassword`, `X-Api-Key`)."""
    names, words = shapes().names, words_of(name)
    if not words or words[0] == "no":  # --no-auth is a switch
        return False
    joined = "".join(words)
    if joined in names.plain:
        return False
    if joined.endswith("token"):
        return len(words) < 2 or words[-2] not in names.text_tokens
    if words[-1] == "key" and len(words) > 1 and words[-2] in names.vendors:
        return True
    return joined.endswith(names.endings) or last_word(name) is not None or _environment_key(name, words)


def secret_words(*words: str) -> bool:
    """The same of a name that is written in several words: `API key`, but not `forward pass`, `pad token`, `PRIMARY KEY`."""
    last = "".join(words_of(words[-1]))
    alone = is_secret_name(words[-1]) or not last.endswith((*shapes().names.endings, *shapes().names.words))
    return alone and is_secret_name(" ".join((*map(str.lower, words[:-1]), words[-1])))


def last_word(name: str) -> Word | None:
    """What the table says of the name's last word, if that is one of those that need a look at the value."""
    names, words = shapes().names, words_of(name)
    found = names.words.get(words[-1]) if words else None
    ended = found is None or "".join(words).endswith(names.endings)
    return None if ended or (len(words) > 1 and words[-2] in found.not_after) else found  # type: ignore[union-attr]


def may_be_path(name: str) -> bool:
    """True for names like `SSH_PRIVATE_KEY` whose value is often the path of a file, which is no secret."""
    words = words_of(name)
    return bool(words) and words[-1].endswith("key") and "secret" not in words


def is_human(name: str) -> bool:
    """True for names of secrets that people choose: any word may be one."""
    return "".join(words_of(name)).endswith(shapes().names.human)


def is_address(name: str) -> bool:
    """True for names whose value is an address, secret in part."""
    return "".join(words_of(name)).endswith(shapes().names.addresses)


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without numbers and words like "value" at its end."""
    words = [w.lower() for w in _WORD.findall(name[-120:])]
    while len(words) > 1 and (words[-1].isdecimal() or words[-1] in _TAIL):
        words.pop()
    return tuple(words)


@cache
def name_hint() -> str:
    """An expression of RE2 that is found wherever a secret name may be."""
    names = shapes().names
    parts = sorted({*_shortest(names.endings), *names.words, "key"})
    tail = "|".join(sorted(_TAIL))
    return f"(?:{'|'.join(map(_spelled, parts))})(?:[_.\\- ]?(?:{tail}|[0-9]{{1,4}}))*"


def _shortest(endings: tuple[str, ...]) -> set[str]:
    """Without those that end like another one."""
    return {e for e in endings if not any(e != o and e.endswith(o) for o in endings)}


def _spelled(word: str) -> str:
    """The word with the signs that may part its words."""
    return "[_.\\- ]?".join(map(re.escape, word)) if len(word) > 8 else re.escape(word)


def _environment_key(name: str, words: tuple[str, ...]) -> bool:
    """`RUNPOD_KEY`, `SOME_SERVICE_KEY`: capital letters ending in _KEY, unless the key is an open one."""
    return name.isupper() and len(words) > 1 and words[-1] == "key" and words[-2] not in shapes().names.open_keys
