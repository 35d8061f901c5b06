"""Whether the parts of one checkpoint belong together: what they say of their step, their ranks and each other. Python 3.8,
stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbooks.checkpoint.parsers.dcp import STEP_NAMES
from runbooks.checkpoint.parsers.needs import needs_of
from runbooks.checkpoint.parsers.types import Blob, StructureCheck


def named_by_others(out: StructureCheck, done: Mapping[str, Blob], checks: Mapping[str, StructureCheck]) -> None:
    """Files that others of the set name and that are not there."""
    for name, size in needs_of(done, {n: c.scalars for n, c in checks.items()}).items():
        out.needs.setdefault(name, size)
        if name not in done:
            out.fault("shard-missing", f"{name} is not there, and others of the set name it", name)


def agree(out: StructureCheck, checks: Mapping[str, StructureCheck], step: int | None) -> None:
    """Faults of parts that are not of one save, or not of the step that their name says."""
    steps = {n: step_of(c.scalars) for n, c in checks.items()}
    known = {n: s for n, s in steps.items() if s is not None}
    if len(set(known.values())) > 1:
        shown = "; ".join(f"{n} is of step {s}" for n, s in sorted(known.items())[:6])
        out.fault("mixed-saves", f"its parts are of different steps: {shown}")
    elif known and step is not None:
        inside = next(iter(known.values()))
        out.scalars["step"] = inside
        if abs(inside - step) > 1:  # counted before or after the step
            out.fault("step-mismatch", f"its name says step {step}, the file says {inside}")
    sizes = {c.scalars["world_size"] for c in checks.values() if isinstance(c.scalars.get("world_size"), int)}
    if len(sizes) > 1:
        out.fault("mixed-saves", f"its parts were written by {' and '.join(map(str, sorted(sizes)))} ranks")
    elif sizes:
        out.scalars["world_size"] = next(iter(sizes))


def written_by(checks: Mapping[str, StructureCheck]) -> int:
    """How many ranks wrote the save, by the word of its files; 0 where they do not say it, or say different numbers."""
    said = {n for c in checks.values() for k in ("world_size", "dp_world_size") if isinstance(n := c.scalars.get(k), int)}
    return said.pop() if len(said) == 1 else 0


def step_of(scalars: Mapping[str, Any]) -> int | None:
    """The step that a checkpoint states itself."""
    for name in STEP_NAMES:
        value = scalars.get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
