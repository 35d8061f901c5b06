"""What was found in a file of another tool: nodes, and remarks for the reader."""

import re
from typing import Any


class Imported:
    """Nodes as the fleet file writes them, and remarks for the reader."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.remarks: list[str] = []

    def add(self, name: str, fields: dict[str, Any]) -> None:
        """Take a node; two names that become alike are told apart by a number. One whose host is none is left out."""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%\w+)?", str(fields.get("host", ""))):
            self.remarks.append(f"{name!r} left out: {fields.get('host')!r} is neither a host name nor an address")
            return
        clean = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60] or "node"
        taken = {n["name"] for n in self.nodes}
        free = next(c for c in (clean, *(f"{clean}-{i}" for i in range(2, 10_000))) if c not in taken)
        if free != name:
            self.remarks.append(f"{name!r} became {free}")
        self.nodes.append({"name": free} | {k: v for k, v in fields.items() if v not in (None, "", {})})
