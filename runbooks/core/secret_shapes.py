"""The table of secret_shapes.yaml as types: which texts are secrets, and by which names, options and sentences they are told."""

from functools import cache
from importlib import resources

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.yaml_loader import load_yaml


class Shape(Frozen):
    """A text that is a secret by itself, or an address whose path is one."""

    name: str
    pattern: str  # Python's `re`
    sample: str  # how tests make one
    source: str  # where it is documented
    hint: str = ""  # for RE2: what the pattern cannot match without, if that is not its beginning
    lines: bool = False  # it goes on over several lines


class Word(Frozen):
    """A last word of a name that means a secret, but not after some words and not for every value."""

    not_after: frozenset[str] = frozenset()
    form: str = ""


class SecretNames(Frozen):
    """Which names announce a secret."""

    endings: tuple[str, ...]
    words: dict[str, Word]
    vendors: tuple[str, ...]
    human: tuple[str, ...]
    addresses: tuple[str, ...]
    plain: frozenset[str]
    folders: frozenset[str]
    text_tokens: frozenset[str]
    open_keys: frozenset[str]


class ToolOption(Frozen):
    """Options of commands that take a secret under names that do not say so."""

    tools: tuple[str, ...]
    options: tuple[str, ...]  # none: the first word that is no option is the secret
    source: str
    after: str = ""  # a word that stands between command and option
    attached: str = ""  # may be "too" or "only": -pSECRET
    pair: str = ""  # only what follows this sign is secret
    form: str = ""  # what the secret looks like, where other words may stand there
    skip: int = 0  # words between the option and the secret


class Written(Frozen):
    """A line that holds a secret at a fixed place: the group `secret` of `pattern`."""

    name: str
    pattern: str  # Python's `re`
    hint: str  # for RE2: what the pattern cannot match without
    source: str


class Sentences(Frozen):
    """How a secret is told in a sentence."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    before: tuple[str, ...]


class Words(Frozen):
    """What is no secret wherever it stands."""

    prose: frozenset[str]
    switches: frozenset[str]
    algorithms: str
    algorithm_parts: tuple[str, ...]


class Shapes(Frozen):
    """The whole table."""

    tokens: tuple[Shape, ...] = Field(min_length=1)
    addresses: tuple[Shape, ...] = Field(min_length=1)
    names: SecretNames
    tools: tuple[ToolOption, ...]
    written: tuple[Written, ...]
    piped: tuple[str, ...]
    sentences: Sentences
    words: Words


@cache
def shapes() -> Shapes:
    """The table, read once."""
    text = resources.files("runbooks.core").joinpath("secret_shapes.yaml").read_text(encoding="utf-8")
    return Shapes.model_validate(load_yaml(text))
