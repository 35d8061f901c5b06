"""Replaces secrets in text, command lines, environments and JSON by `<secret:NAME:hash>`.

The hash is keyed (HMAC-SHA256, 8 hex digits): equal secrets show as equal, and without the key nobody can
try guesses against a report. Every pass takes linear time: names start at word
boundaries, quantifiers are bounded.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runbooks.core.redact_named import shown
from runbooks.core.redact_passes import over_all
from runbooks.core.redact_text import PLACEHOLDER
from runbooks.core.redact_tools import secret_part, tool_words
from runbooks.core.secret_names import is_secret_name
from runbooks.core.secret_values import is_address_in_part, is_value

_OPTION = re.compile(r"--?([A-Za-z][\w.\-]{0,99})\Z", re.ASCII)
_MIN_KNOWN = 6  # shorter known values would eat ordinary text


class Redactor:
    """Takes secrets out. One per run, with the installation's key, so that hashes compare between runs."""

    def __init__(self, key: bytes, known: Mapping[str, str] | None = None) -> None:
        if len(key) < 16:
            raise ValueError("the redaction key needs at least 16 bytes")
        self._key = key
        known = {n: v for n, v in (known or {}).items() if len(v) >= _MIN_KNOWN}
        self._known = sorted(known.items(), key=lambda item: -len(item[1]))

    def knowing(self, known: Mapping[str, str]) -> "Redactor":
        """A redactor that also replaces these exact values wherever they stand."""
        return Redactor(self._key, {**dict(self._known), **known})

    def hash(self, value: str) -> str:
        """The keyed hash that the placeholder shows: for comparing a value read again on the node."""
        return hmac.new(self._key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]

    def mark(self, name: str, value: str) -> str:
        """The placeholder for that value; a placeholder stays as it is."""
        if PLACEHOLDER.fullmatch(value):
            return value
        clean = re.sub(r"[^A-Za-z0-9_.\-]+", "-", name[-40:]).strip("-") or "value"
        return f"<secret:{clean}:{self.hash(value)}>"

    def text(self, text: str) -> str:
        """`text` with every secret found replaced. Doing it twice changes nothing."""
        return over_all(self.known(text), lambda _: self.mark)

    def known(self, text: str) -> str:
        """`text` with the values that are known replaced."""
        for name, value in self._known:
            text = text.replace(value, self.mark(name, value))
        return text

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """A command line, where a secret option's next argument is wholly secret."""
        out: list[str] = []
        short, name = tool_words(argv), ""
        for i, arg in enumerate(argv):
            if i in short and not PLACEHOLDER.search(arg):
                at, row = short[i]
                plain, secret = secret_part(arg[at:], row)
                out.append(arg[:at] + plain + (self.mark(row.tools[0], secret) if secret else ""))
            else:
                out.append(self._value(name, arg, option=True) if name and not arg.startswith("--") else self.text(arg))
            name = _option(arg)
        return tuple(out)

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """An environment, by the names of its variables and by what the values look like."""
        return {self.text(n): self._value(n, v) if is_secret_name(n) else self.text(v) for n, v in env.items()}

    def data(self, data: Any) -> Any:
        """JSON data: secret fields, name/value pairs, Kubernetes Secrets, and every string in it."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return self._mapping(data)
        if isinstance(data, (list, tuple)):
            texts = [isinstance(x, str) for x in data]
            return list(self.argv(data)) if texts and all(texts) else [self.data(x) for x in data]
        return data

    def _mapping(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        pair = data.get("name", data.get("key", data.get("Name")))
        out: dict[Any, Any] = {}
        for key, value in data.items():
            secret = is_secret_name(str(key)) or (
                str(key).lower() == "value" and isinstance(pair, str) and is_secret_name(pair)
            )
            name = pair if str(key).lower() == "value" and isinstance(pair, str) else str(key)
            if data.get("kind") == "Secret" and key in ("data", "stringData") and isinstance(value, Mapping):
                out[key] = {self.text(str(k)): self.mark(str(k), str(v)) for k, v in value.items()}
            else:
                out[self.text(key) if isinstance(key, str) else key] = self._field(name, value, secret)
        return out

    def _field(self, name: str, value: Any, secret: bool) -> Any:
        if name.lower() in ("env", "environment") and isinstance(value, (list, tuple)):
            return [self._variable(x) if isinstance(x, str) else self.data(x) for x in value]
        if secret and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return self._value(name, str(value)) if is_value(name, str(value)) else self.data(value)
        if secret and isinstance(value, (list, tuple)) and all(isinstance(x, str) for x in value):
            return [self._value(name, x) for x in value]
        return self.data(value)

    def _variable(self, line: str) -> str:
        name, equals, value = line.partition("=")
        return f"{name}={self._value(name, value)}" if equals and is_secret_name(name) else self.text(line)

    def _value(self, name: str, value: str, option: bool = False) -> str:
        """The whole value under a secret name, unless it is empty, a switch, a reference or a path."""
        if PLACEHOLDER.fullmatch(value) or not is_value(name, value, option):
            return self.text(value)
        return self.text(value) if is_address_in_part(name, value) else shown(name, value, self.mark)


def _option(arg: str) -> str:
    """The name under which the next argument is secret; "" if it is not."""
    found = _OPTION.match(arg)
    return found[1] if found and is_secret_name(found[1]) else ""
