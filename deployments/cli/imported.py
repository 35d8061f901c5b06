"""What was found in a file of another tool: nodes, and remarks for the reader."""

import re
from itertools import count
from pathlib import Path
from typing import Any

from deployments.errors import CommandError
from flows.config import LARGEST
from runbooks.core.clean import one_line
from runbooks.core.config_errors import kind
from runbooks.core.whole_number import whole_number
from tasks.whole_file import read_whole

LONGEST_REMARK = 300
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%\w+)?")


class Imported:
    """Nodes as the fleet file writes them, and remarks for the reader."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.remarks: list[str] = []
        self._taken: set[str] = set()
        self._numbers: dict[str, count[int]] = {}

    def say(self, remark: str) -> None:
        """Tell the reader, in one line that is not too long."""
        self.remarks.append(one_line(remark, LONGEST_REMARK))

    def add(self, name: str, fields: dict[str, Any]) -> None:
        """Take a node; two names that become alike are told apart by a number. One whose host is none is left out."""
        if not _HOST.fullmatch(str(fields.get("host", ""))):
            self.say(f"{name!r} left out: {fields.get('host')!r} is neither a host name nor an address")
            return
        free = self._free(re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60] or "node")
        if free != name:
            self.say(f"{name!r} became {free}")
        self.nodes.append({"name": free} | {k: v for k, v in fields.items() if v not in (None, "", {})})

    def _free(self, name: str) -> str:
        free = name
        while free in self._taken:
            free = f"{name}-{next(self._numbers.setdefault(name, count(2)))}"
        self._taken.add(free)
        return free

    def port(self, name: str, value: object) -> int | None:
        """The port that a file gives to that host; None is the usual one. What is no port is told."""
        number = whole_number(value)
        if number is not None and 1 <= number <= 65535:
            return number if number != 22 else None
        if value not in (None, ""):
            said = repr(value) if isinstance(value, str) else kind(value) if number is None else str(number)
            self.say(f"{name}: port {said} is not a port; 22 is assumed")
        return None


def read_text(path: Path) -> str:
    """The file's text. Raises CommandError."""
    try:
        return read_whole(path, LARGEST).decode("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise CommandError(f"{path}: {getattr(e, 'strerror', None) or 'not UTF-8 text'}") from e
