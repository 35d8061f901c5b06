"""Cuts out of a line what seldom stands in one: on many lines a looser and faster look comes first."""

import re
from typing import Any

PATIENCE = 1000  # lines that are looked at without it: building the faster look takes longer than they do


class Seldom:
    """A pattern that is cut out wherever it stands."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._regex = re.compile(pattern)
        self._seen = 0
        self._fast: Any = None

    def cut_out(self, text: str) -> str:
        """The text without it."""
        self._seen += 1
        if self._seen > PATIENCE and "\n" not in text and not self._may(text):
            return text
        return self._regex.sub("", text)

    def _may(self, text: str) -> bool:
        if self._fast is None:
            from runbooks.triage.loose import compiled, loose

            self._fast = compiled(loose(self.pattern)[0])
        return self._fast.search(text.encode("ascii", "replace")) is not None
