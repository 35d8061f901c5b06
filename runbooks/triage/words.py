"""What is written once and stands elsewhere by its name: in a pattern `{{name}}` for words in which people say the same thing, in a
condition `{{runbook.limit}}` for the number of a runbook's limit."""

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Any

_LINE = re.compile(r"(?m)^(\w+): '(.*)'$")
_NAME = re.compile(r"\{\{(\w+)\}\}")
_LIMIT = re.compile(r"\{\{([a-z-]+\.\w+)\}\}")


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


def limits_by_name(runbooks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """"runbook.limit" -> its value, of runbook files as plain data."""
    return {f"{data['slug']}.{name}": limit["value"] for data in runbooks for name, limit in data.get("limits", {}).items()}


def put_limits(causes: dict[str, Any], limits: dict[str, Any]) -> None:
    """Puts the number of a runbook's limit in place of its name in every condition. Raises KeyError for one that there is not."""
    for signature in (s for cause in causes.values() for s in cause.get("signatures", ()) if "where" in s):
        signature["where"] = [_LIMIT.sub(lambda found: str(limits[found[1]]), c) for c in signature["where"]]
