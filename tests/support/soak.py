"""The numbers of the last soak: kept in tests/soak.json, which is committed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "soak.json"


def recorded() -> dict[str, Any]:
    """What the last soak of each kind measured, by name."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def record(name: str, facts: Mapping[str, object]) -> None:
    """Write one soak's numbers down, in place of its last ones."""
    FILE.write_text(json.dumps(recorded() | {name: dict(facts)}, indent=1) + "\n", encoding="utf-8")
