"""What the doctor says: one line a check."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One line. `state` is ok, note (works without), or FAULT."""

    name: str
    state: str
    says: str
    fix: str = ""
