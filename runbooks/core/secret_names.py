"""Which names announce a secret: variables, JSON fields, options, headers. No value is looked at."""

import re

_SUFFIXES = (
    "password", "passwd", "passphrase", "passcode", "pwd",
    "secret", "secretvalue", "token", "credential", "credentials",
    "apikey", "accesskey", "accesskeyid", "secretkey", "privatekey", "signingkey", "encryptionkey",
   "masterkey",
    "authkey", "servicekey", "rolekey", "anonkey", "accountkey", "deploykey", "licensekey", "sharedkey",
    "authorization", "auth", "cookie", "jwt", "bearer",
)  # fmt: skip
_PLAIN = frozenset({"pwd", "oldpwd", "sshauth", "guestauth"})  # working directories, switches
_ML_WORDS = frozenset(
    "pad eos bos unk sep cls mask image video audio max min num per stop next end begin start special "  # noqa: SIM905
    "continue eot".split()
)  # words before "token" that make it a piece of text, not a secret
_OPEN_KEYS = frozenset(
    "public pub host primary foreign sort partition cache registry row group dict map "  # noqa: SIM905
    "lookup hot index order".split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TAIL = frozenset({"value", "text", "base64", "b64", "old", "new", "previous", "current", "raw"})


def is_secret_name(name: str) -> bool:
    """True if the value under that name should never be shown (`HF_TOKEN`, `dbPassword`, `X-Api-Key`)."""
    words = _words(name)
    if not words:
        return False
    joined = "".join(words)
    if joined in _PLAIN:
        return False
    if joined.endswith("token"):
        return len(words) < 2 or words[-2] not in _ML_WORDS
    return joined.endswith(_SUFFIXES) or _environment_key(name, words)


def may_be_path(name: str) -> bool:
    """True for names like `SSH_PRIVATE_KEY` whose value is often the path of a file, which is no secret."""
    words = _words(name)
    return bool(words) and words[-1].endswith("key") and "secret" not in words


def _words(name: str) -> list[str]:
    words = [w.lower() for w in _WORD.findall(name[-120:])]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _TAIL):
        words.pop()
    return words


def _environment_key(name: str, words: list[str]) -> bool:
    """`RUNPOD_KEY`, `SOME_SERVICE_KEY`: capital letters ending in _KEY, unless the key is an open one."""
    return name.isupper() and len(words) > 1 and words[-1] == "key" and words[-2] not in _OPEN_KEYS
