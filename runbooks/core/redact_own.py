"""Redaction of what we wrote ourselves: reports, verdicts, timelines. Foreign text in it was cleaned where it was read.

In our own sentences a name announces nothing: "deploy_key: it has CRLF line ends" is the verdict. There a value is taken for a
secret by its form alone; and a field of our own models is never secret for being called `secret` or `auth`. A member of one
of our own enums is never a secret, whatever the key that it stands under ("normalise-secret: disruptive").
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from runbooks.core.redact import Redactor
from runbooks.core.redact_passes import over_all
from runbooks.core.secret_values import is_algorithm, is_open

_WORD = re.compile(r"[^\s\"'`(){}\[\],;|<>]+")
_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_CHANGES = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[0-9])[A-Za-z]|(?<=[A-Z])[0-9]")  # not from a capital to its word
_HEX = re.compile(r"[0-9a-fA-F]{32,}")
_LEAST, _LEAST_OF_LETTERS = 4, 7  # changes in a run: AmazonS3Exception has three
_LONG = 16  # the length from which small letters and digits are enough


def own_text(redactor: Redactor, text: str) -> str:
    """A sentence of ours, with the secrets in it that show by value or form."""
    return over_all(redactor.known(text), lambda one: redactor.mark if one.by_form else _only_made(redactor))


def own_model(redactor: Redactor, model: BaseModel, *, sentences: bool) -> Any:
    """The model as JSON data. `sentences`: its texts are ours; else they may be foreign, and only its fields are ours."""
    return _clean(redactor, model, model.model_dump(mode="json"), sentences)


def _clean(redactor: Redactor, value: Any, dumped: Any, sentences: bool) -> Any:
    if isinstance(value, BaseModel):
        return {k: _clean(redactor, getattr(value, k, v), v, sentences) for k, v in dumped.items()}
    if isinstance(value, Enum):
        return dumped
    if isinstance(value, (list, tuple)) and not _texts(value):
        return [_clean(redactor, v, d, sentences) for v, d in zip(value, dumped, strict=True)]
    if isinstance(value, Mapping) and _ours(value):
        both = zip(value.values(), dumped.items(), strict=True)
        return {redactor.text(k): _clean(redactor, v, d, sentences) for v, (k, d) in both}
    if sentences and isinstance(dumped, str):
        return own_text(redactor, dumped)
    if sentences and isinstance(dumped, list):
        return [own_text(redactor, d) for d in dumped]
    return redactor.data(dumped)


def _texts(values: Iterable[Any]) -> bool:
    return all(isinstance(v, str) and not isinstance(v, Enum) for v in values)


def _ours(value: Any) -> bool:
    """True for what we made: a model, a member of an enum, and a list or mapping of nothing else (None aside)."""
    if isinstance(value, (list, tuple, Mapping)):
        found = [v for v in (value.values() if isinstance(value, Mapping) else value) if v is not None]
        return bool(found) and all(map(_ours, found))
    return isinstance(value, (BaseModel, Enum))


def _only_made(redactor: Redactor) -> Any:
    def mark(name: str, value: str) -> str:
        return _WORD.sub(lambda m: redactor.mark(name, m[0]) if is_made(m[0]) else m[0], value)

    return mark


def is_made(word: str) -> bool:
    """True for a word that looks made at random: a long run of letters and digits in which they change often."""
    if is_open(word) or is_algorithm(word) or word.startswith(("/", "./", "~/")) or "://" in word:
        return False
    return any(_is_made(run) for run in _RUN.findall(word))


def _is_made(run: str) -> bool:
    if _HEX.fullmatch(run):
        return True
    least = _LEAST if any(c.isdigit() for c in run) else _LEAST_OF_LETTERS
    return (len(run) >= _LONG or run != run.lower()) and len(_CHANGES.findall(run)) >= least
