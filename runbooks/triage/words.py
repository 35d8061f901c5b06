"""Words in which people say the same thing, written once: `{{name}}` in a pattern stands for all of them."""

import re
from functools import lru_cache
from importlib import resources

_LINE = re.compile(r"(?m)^(\w+): '(.*)'$")
_NAME = re.compile(r"\{\{(\w+)\}\}")


@lru_cache(maxsize=1)
def words() -> dict[str, str]:
    """Name and regular expression of each row of runbooks/knowledge/words.yaml. No YAML parser: its import costs more than all this."""
    text = (resources.files("runbooks") / "knowledge" / "words.yaml").read_text(encoding="utf-8")
    known: dict[str, str] = {}
    for name, pattern in _LINE.findall(text):
        known[name] = _put(pattern, known)
    return known


def spelled(text: str) -> str:
    """The text of a file of knowledge with every `{{name}}` replaced. Raises KeyError for a name that there is not."""
    return _put(text, words()) if "{{" in text else text


def _put(text: str, known: dict[str, str]) -> str:
    return _NAME.sub(lambda found: known[found[1]], text)
